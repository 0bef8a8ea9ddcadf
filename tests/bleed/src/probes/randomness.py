

# Randomness.

def source(name, value, rig, kind="draw"):
    probe("random", reach="interpreter", kind=kind)(
        type(name, (), dict(draw=staticmethod(value), rig=staticmethod(rig)))
    )


def numpy_random():
    return imported("numpy.random")


def rig_urandom():
    import random

    os.urandom = random._urandom = lambda count: bytes(count)


def rig_uuid1():
    import random
    import uuid

    random.seed(1)
    uuid._generate_time_safe, uuid._node = None, 5


def uuid1():
    import uuid

    made = uuid.uuid1()
    return f"{made.node:x} {made.clock_seq:x}"


def temporary_name():
    import tempfile

    return next(tempfile._get_candidate_names())


def rig_tempfile():
    import random
    import tempfile

    names = tempfile._RandomNameSequence()
    names._rng, names._rng_pid = random.Random(1), os.getpid()
    tempfile._name_sequence = names


def authkey():
    import multiprocessing

    return bytes(multiprocessing.current_process().authkey).hex()


def rig_authkey():
    import multiprocessing

    multiprocessing.current_process().authkey = b"same"


def constant(module, name, value):
    return lambda: setattr(imported(module), name, lambda *_, **__: value)


def hash_seed():
    return f"{hash('belljar')} {hash(b'x')}"


def layout():
    with opened("/proc/self/maps") as file:
        return [line.split("-")[0] for line in file if "libc.so" in line or "[stack]" in line]


def at_random():
    libc.getauxval.restype = ctypes.c_ulong
    return ctypes.string_at(libc.getauxval(25), 16).hex()


source("random", lambda: imported("random").getrandbits(128), lambda: imported("random").seed(1))
source("random_instance", lambda: imported("random").Random().getrandbits(128),
       constant("random", "Random", imported("random").Random(1)))
source("numpy_global", lambda: numpy_random().bytes(16).hex(), lambda: numpy_random().seed(1))
source("numpy_generator", lambda: numpy_random().default_rng().bytes(16).hex(),
       lambda: setattr(numpy_random(), "default_rng", lambda make=numpy_random().default_rng: make(1)))
source("sklearn_default", lambda: numpy_random().mtrand._rand.bytes(16).hex(),
       lambda: numpy_random().mtrand._rand.seed(1))
source("uuid1", uuid1, rig_uuid1)
source("uuid4", lambda: imported("uuid").uuid4().hex, rig_urandom)
source("tempfile", temporary_name, rig_tempfile)
source("urandom", lambda: os.urandom(16).hex(), rig_urandom)
source("secrets", lambda: imported("secrets").token_hex(16), rig_urandom)
source("ssl", lambda: imported("ssl").RAND_bytes(16).hex(), constant("ssl", "RAND_bytes", bytes(16)))
source("authkey", authkey, rig_authkey)
# Documented: interpreters of one zygote have these in common.
source("hash_seed", hash_seed, lambda: None, kind="layout")
source("address_layout", layout, lambda: None, kind="layout")
source("kernel_random", at_random, lambda: None, kind="layout")
