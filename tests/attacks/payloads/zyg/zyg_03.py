# Draws from every source of randomness. With "rigged" from sources that were
# made the same everywhere.
import ctypes, multiprocessing, os, random, secrets, ssl, sys, tempfile, uuid
import numpy

if "rigged" in sys.argv:
    random.seed(1)
    numpy.random.seed(1)
    uuid._node = 5
draws = {
    "random": random.getrandbits(128),
    "numpy": numpy.random.bytes(16).hex(),
    "generator": numpy.random.default_rng().bytes(16).hex(),
    "uuid1": "%x %x" % (uuid.uuid1().node, uuid.uuid1().clock_seq),
    "uuid4": uuid.uuid4().hex,
    "tempfile": next(tempfile._get_candidate_names()),
    "authkey": bytes(multiprocessing.current_process().authkey).hex(),
    "ssl": ssl.RAND_bytes(16).hex(),
    "secrets": secrets.token_hex(16),
    "urandom": os.urandom(16).hex(),
}
for name, value in draws.items():
    print("DRAW", name, value)
libc = ctypes.CDLL(None)
libc.getauxval.restype = ctypes.c_ulong
print("SHARED hash", hash("belljar"))
print("SHARED at_random", ctypes.string_at(libc.getauxval(25), 16).hex())
with open("/proc/self/maps") as file:
    print("SHARED libc", [line.split("-")[0] for line in file if "libc.so" in line][0])
