"""A stand-in of the part of kube-apiserver that `kubectl cordon`, `drain`, `get`, `patch` and `annotate` use."""
