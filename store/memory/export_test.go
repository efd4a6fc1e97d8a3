package memory

type Backend = backend
