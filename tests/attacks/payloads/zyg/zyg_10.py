# Says what the preloaded modules are. With "mutate" it changes some before.
import builtins, gc, hashlib, json, signal, sys, types

if "mutate" in sys.argv:
    import numpy, pandas
    json.loads = lambda text: "poisoned"
    numpy.add = None
    pandas.DataFrame.head = lambda self: "poisoned"
    builtins.bleed = "poisoned"
    gc.disable()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
state = hashlib.sha256()
count = 0
for name in sorted(sys.modules):
    module = sys.modules[name]
    if name == "__main__" or not isinstance(module, types.ModuleType):
        continue
    for key, value in sorted(vars(module).items(), key=lambda item: str(item[0])):
        code = getattr(value, "__code__", None)
        told = code.co_code if isinstance(code, types.CodeType) else type(value).__qualname__.encode()
        if isinstance(value, type):
            told += repr(sorted(map(str, vars(value)))).encode()
            told += b"".join(
                item.__code__.co_code for _, item in sorted(vars(value).items(), key=lambda i: str(i[0]))
                if isinstance(getattr(item, "__code__", None), types.CodeType)
            )
        state.update(f"{name}.{key}".encode() + told)
        count += 1
state.update(repr((gc.isenabled(), signal.getsignal(signal.SIGTERM))).encode())
print("STATE", state.hexdigest(), count)
