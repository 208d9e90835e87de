"""The same model in other libraries: PyTorch's own layers, Hugging Face's Marian and CTranslate2."""
