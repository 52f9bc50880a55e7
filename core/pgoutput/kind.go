package pgoutput

// Kind is the tag of a message, its first byte.
type Kind byte

// Messages of protocol 1.
const (
	KindBegin    Kind = 'B'
	KindCommit   Kind = 'C'
	KindOrigin   Kind = 'O'
	KindRelation Kind = 'R'
	KindType     Kind = 'Y'
	KindInsert   Kind = 'I'
	KindUpdate   Kind = 'U'
	KindDelete   Kind = 'D'
	KindTruncate Kind = 'T'
	KindMessage  Kind = 'M'
)

// Messages of protocol 2 (streamed transactions) and 3 (two-phase commit).
const (
	KindStreamStart      Kind = 'S'
	KindStreamStop       Kind = 'E'
	KindStreamCommit     Kind = 'c'
	KindStreamAbort      Kind = 'A'
	KindBeginPrepare     Kind = 'b'
	KindPrepare          Kind = 'P'
	KindCommitPrepared   Kind = 'K'
	KindRollbackPrepared Kind = 'r'
	KindStreamPrepare    Kind = 'p'
)

// streamed reports whether a message of this kind begins with the subtransaction's id
// where it stands between Stream Start and Stop.
func (k Kind) streamed() bool {
	switch k {
	case KindInsert, KindUpdate, KindDelete, KindRelation, KindType, KindTruncate, KindMessage:
		return true
	}
	return false
}

// String names the message as the Postgres manual does.
func (k Kind) String() string {
	for i := range kindNames {
		if kindNames[i].kind == k {
			return kindNames[i].name
		}
	}
	return "unknown"
}

var kindNames = [...]struct {
	kind Kind
	name string
}{
	{KindBegin, "Begin"}, {KindCommit, "Commit"}, {KindOrigin, "Origin"},
	{KindRelation, "Relation"}, {KindType, "Type"}, {KindInsert, "Insert"},
	{KindUpdate, "Update"}, {KindDelete, "Delete"}, {KindTruncate, "Truncate"},
	{KindMessage, "Message"}, {KindStreamStart, "Stream Start"},
	{KindStreamStop, "Stream Stop"}, {KindStreamCommit, "Stream Commit"},
	{KindStreamAbort, "Stream Abort"}, {KindBeginPrepare, "Begin Prepare"},
	{KindPrepare, "Prepare"}, {KindCommitPrepared, "Commit Prepared"},
	{KindRollbackPrepared, "Rollback Prepared"}, {KindStreamPrepare, "Stream Prepare"},
}
