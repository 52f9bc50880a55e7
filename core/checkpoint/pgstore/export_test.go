package pgstore

// Classify is what a server's SQLSTATE means.
func Classify(op, code string) error { return classifyServer(op, code) }
