import os,resource,sys,time,gc,ctypes
os.environ['OPENBLAS_NUM_THREADS']='1'
for m in sys.argv[1:]: __import__(m)
fork=ctypes.PyDLL(None).fork; fork.argtypes=[]; fork.restype=ctypes.c_int
rawfork=ctypes.PyDLL(None).syscall
child=ctypes.pythonapi.PyOS_AfterFork_Child; child.argtypes=[]; child.restype=None
ru=resource.getrusage
def f(): return ru(0).ru_minflt
def measure(tag, do):
    gc.collect(); gc.disable(); gc.freeze()
    out=[]
    f(); time.clock_gettime(2)
    for _ in range(5):
        r,w=os.pipe()
        pid=do()
        if pid==0:
            a=f(); ca=time.clock_gettime(2)
            if tag!='os.fork': child()
            b=f(); cb=time.clock_gettime(2)
            os.write(w,f"{a},{ca*1e6:.0f}us then {b-a},{(cb-ca)*1e6:.0f}us".encode()); os._exit(0)
        os.waitpid(pid,0); out.append(os.read(r,99).decode()); os.close(r); os.close(w)
    print(f'{tag:20}',out[1:5])
measure('os.fork',os.fork)
measure('libc.fork',fork)
measure('raw',lambda: rawfork(57))
