# args: none
# LNG-02: walk a Pyodide or JavaScript bridge from the guest interpreter into its host
# process. The design uses no such bridge for isolation, so there must be none to walk.
import importlib
import platform
import sys

held = []
breach = []

# These modules are the bridge: objects of the host's JavaScript engine.
for mod in ("js", "pyodide_js", "pyodide", "_pyodide_core", "polyscript", "jsbridge"):
    try:
        m = importlib.import_module(mod)
    except ImportError:
        held.append("no module " + mod)
        continue
    except Exception as e:  # A broken bridge is still a bridge.
        breach.append("module %s is there (%s)" % (mod, type(e).__name__))
        continue
    breach.append("module %s is there" % mod)
    # The walk itself: any object leads to the function constructor, and that one runs
    # code in the host process.
    try:
        ctor = getattr(m, "Object", m).constructor.constructor
        got = ctor("return typeof process")()
        breach.append("the constructor walk returns " + str(got))
    except Exception as e:
        print("NOTE walk of %s failed: %s" % (mod, type(e).__name__), flush=True)

if sys.platform in ("emscripten", "wasi") or platform.machine().startswith("wasm"):
    breach.append("the interpreter runs inside another process (%s)" % sys.platform)
else:
    held.append("native interpreter on %s %s" % (sys.platform, platform.machine()))

# An audit hook or a patched import is another in-process fence that pretends to hold.
if type(__import__).__name__ != "builtin_function_or_method":
    breach.append("__import__ is wrapped: a fence in the language is being relied on")
else:
    held.append("__import__ is the builtin one")

print(("BREACH " + "; ".join(breach)) if breach else ("HELD " + "; ".join(held)), flush=True)
