"""nbconvert --execute in ten lines"""
import json, sys
space = {"__name__": "__main__"}
for n, cell in enumerate(json.load(open(sys.argv[1]))["cells"]):
    if cell["cell_type"] == "code":
        print(f"In [{n}]", flush=True)
        exec(compile("".join(cell["source"]), f"cell {n}", "exec"), space)
