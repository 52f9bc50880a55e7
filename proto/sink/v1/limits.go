package sinkv1

// Limits of the wire, in bytes unless said. The ids are those of docs/protocol.md.
const (
	// DefaultMaxRequestBytes bounds a request until the sink says another number (L-101).
	DefaultMaxRequestBytes = 3 << 20
	// DefaultPreferredRequestBytes is what batches and frames grow to until the sink
	// says another number (L-102, L-110).
	DefaultPreferredRequestBytes = 1 << 20
	// MaxReceiveBytes is the receive limit that client and server of ours set (L-103).
	MaxReceiveBytes = 64 << 20
	// MaxRelations is the number of relations that one request refers to (L-104).
	MaxRelations = 10_000
	// MaxColumns is the number of columns of a relation (L-105).
	MaxColumns = 1_600
	// MaxProgressTokenBytes bounds the token of an incremental snapshot (L-106).
	MaxProgressTokenBytes = 1 << 20
	// MaxResumeStateBytes bounds the resume state (L-107).
	MaxResumeStateBytes = 1 << 20
	// MaxStatusMessageBytes bounds the text of an error status (L-108).
	MaxStatusMessageBytes = 1 << 10
	// MaxPreparedTokenBytes bounds the token of a prepared unit (L-109).
	MaxPreparedTokenBytes = 1 << 10
	// GIDBytes is the length of a gid (L-109).
	GIDBytes = 109
	// IDBytes is the length of sender id, instance id, lineage and run id.
	IDBytes = 16
)
