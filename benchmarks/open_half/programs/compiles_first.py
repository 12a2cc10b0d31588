"""Its first minute is code generation: a C++ compiler works, and no step has ended."""
import subprocess, sys, tempfile, time, os
import torch
torch.set_num_threads(1)
print("compiling fused kernels ...", flush=True)
body = "\n".join(f"double f{i}(double x){{double s=0;for(int k=0;k<{i}+3;k++)s+=x*k/(k+{i}.5);return s;}}" for i in range(12000))
with tempfile.TemporaryDirectory() as d:
    src = os.path.join(d, "k.c"); open(src, "w").write(body)
    end = time.time() + 25
    while time.time() < end:
        subprocess.run(["cc", "-O2", "-c", src, "-o", os.path.join(d, "k.o")], check=False)
m = torch.nn.Linear(64, 64); o = torch.optim.Adam(m.parameters()); i = 0
while True:
    x = torch.randn(512, 64); l = (m(x) - x.roll(1, 1)).pow(2).mean(); o.zero_grad(); l.backward(); o.step(); i += 1
    if i % 200 == 0: print(f"iter {i} loss {l.item():.5f}", flush=True)
