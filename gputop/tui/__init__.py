"""The screens. The only package that imports textual and plotext."""
