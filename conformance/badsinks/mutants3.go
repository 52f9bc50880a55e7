package badsinks

// mutants3 are those of a sink with a store or a port on the network.
var mutants3 = []Mutant{
	{RetriesLostCommit, Remote, "stores a unit once more when the answer to its commit was lost", []string{"ATM-005"}},
	{KeepsDeadConnection, Remote, "keeps a connection to its store that is dead", []string{"ERR-004"}},
	{AwayIsInternal, Remote, "answers INTERNAL while its store is away", []string{"ERR-004"}},
	{TakesPlainText, Guarded, "takes plain text at a port of TLS", []string{"SEC-001"}},
	{TakesAnyCertificate, Guarded, "takes a client certificate of any authority", []string{"SEC-001"}},
	{TakesNoCertificate, Guarded, "asks for no client certificate", []string{"SEC-001"}},
	{TakesAnyToken, Guarded, "takes any token, and none", []string{"SEC-002"}},
	{TokenUnaryOnly, Guarded, "asks no stream for a token", []string{"SEC-002"}},
	{TokenOnceOnly, Guarded, "asks for a token at GetCapabilities alone", []string{"SEC-002"}},
	{TokenInStatus, Guarded, "repeats a wrong token in the status", []string{"PII-003"}},
	{TokenInOutput, Guarded, "prints the headers of calls", []string{"PII-003"}},
}
