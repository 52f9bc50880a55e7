package assembler

import (
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pglogrepl"
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/golden"
	"github.com/stretchr/testify/require"
)

// memorySpill keeps blocks in memory and counts what is open.
type memorySpill struct {
	open, blocks int
	fail         error // of the next Append
}

type memoryFile struct {
	all    *memorySpill
	blocks [][]byte
	closed bool
}

func (s *memorySpill) Create() (SpillFile, error) {
	s.open++
	return &memoryFile{all: s}, nil
}

func (f *memoryFile) Append(block []byte) error {
	if f.all.fail != nil {
		return f.all.fail
	}
	f.blocks = append(f.blocks, append([]byte(nil), block...))
	f.all.blocks++
	return nil
}

func (f *memoryFile) Next() ([]byte, error) {
	if len(f.blocks) == 0 {
		return nil, io.EOF
	}
	block := f.blocks[0]
	f.blocks = f.blocks[1:]
	return block, nil
}

func (f *memoryFile) Close() {
	if !f.closed {
		f.closed = true
		f.all.open--
	}
}

// Transactions of every recorded session with streaming equal those of a reference that
// keeps lists of messages and a map of relations for each transaction in progress: with
// all in memory, with all spilled, and with something of each.
func TestRecordedStreamsEqualTheReference(t *testing.T) {
	all, err := golden.ReadDir(recordings)
	require.NoError(t, err)
	sessions, changes, spilled := 0, 0, 0
	for _, r := range all {
		for i, s := range r.Sessions {
			if !s.Streaming() || strings.Contains(s.Options, "two_phase") {
				continue
			}
			sessions++
			t.Run(r.Name(i), func(t *testing.T) {
				want := streamReference(t, s)
				for _, resident := range []int{1 << 20, 1, 200} {
					for _, cutEvery := range []int{0, 3} {
						spill := &memorySpill{}
						got := assembledWith(t, s, cutEvery, Options{Slab: 512, Resident: resident, Spill: spill})
						require.Equal(t, want, got, "%d bytes resident, cut after %d changes", resident, cutEvery)
						require.Zero(t, spill.open, "files left")
						spilled += spill.blocks
					}
				}
				for _, tx := range want {
					changes += len(tx.Changes)
				}
			})
		}
	}
	require.Greater(t, sessions, 45)
	require.Greater(t, changes, 2000)
	require.Greater(t, spilled, 1000)
}

// referenceStream is a transaction in progress of the reference.
type referenceStream struct {
	origin   string
	messages []pglogrepl.Message
	subs     []uint32
}

func streamReference(t *testing.T, s golden.Session) []simple {
	r := &referee{relations: map[uint32]*pglogrepl.RelationMessage{}, leaves: map[uint32]map[uint8]bool{}}
	streams, top := map[uint32]*referenceStream{}, uint32(0)
	hold := func(sub uint32, m pglogrepl.Message) {
		if top == 0 {
			r.take(m)
			return
		}
		streams[top].messages, streams[top].subs = append(streams[top].messages, m), append(streams[top].subs, sub)
	}
	for _, frame := range s.Messages() {
		message, err := pglogrepl.ParseV2(frame, top != 0)
		require.NoError(t, err)
		switch x := message.(type) {
		case *pglogrepl.StreamStartMessageV2:
			require.Equal(t, x.FirstSegment == 1, streams[x.Xid] == nil)
			if top = x.Xid; streams[top] == nil {
				streams[top] = &referenceStream{}
			}
		case *pglogrepl.StreamStopMessageV2:
			top = 0
		case *pglogrepl.OriginMessage:
			if top != 0 {
				streams[top].origin = x.Name
			} else {
				r.take(x)
			}
		case *pglogrepl.RelationMessageV2:
			hold(x.Xid, &x.RelationMessage)
		case *pglogrepl.TypeMessageV2:
			hold(x.Xid, &x.TypeMessage)
		case *pglogrepl.InsertMessageV2:
			hold(x.Xid, &x.InsertMessage)
		case *pglogrepl.UpdateMessageV2:
			hold(x.Xid, &x.UpdateMessage)
		case *pglogrepl.DeleteMessageV2:
			hold(x.Xid, &x.DeleteMessage)
		case *pglogrepl.TruncateMessageV2:
			hold(x.Xid, &x.TruncateMessage)
		case *pglogrepl.LogicalDecodingMessageV2:
			hold(x.Xid, &x.LogicalDecodingMessage)
		case *pglogrepl.StreamAbortMessageV2:
			if tx := streams[x.Xid]; x.SubXid == x.Xid {
				delete(streams, x.Xid)
			} else if tx != nil {
				tx.without(x.SubXid)
			}
		case *pglogrepl.StreamCommitMessageV2:
			r.commitStream(x, streams[x.Xid])
			delete(streams, x.Xid)
		default:
			r.take(message)
		}
	}
	return r.all
}

func (s *referenceStream) without(sub uint32) {
	messages, subs := s.messages, s.subs
	s.messages, s.subs = nil, nil
	for i := range messages {
		if subs[i] != sub {
			s.messages, s.subs = append(s.messages, messages[i]), append(s.subs, subs[i])
		}
	}
}

// commitStream reads the transaction with relations of its own, which count for others
// from here on.
func (r *referee) commitStream(c *pglogrepl.StreamCommitMessageV2, s *referenceStream) {
	own := &referee{relations: map[uint32]*pglogrepl.RelationMessage{}, leaves: r.leaves}
	own.tx = simple{XID: c.Xid, Commit: core.LSN(c.CommitLSN), End: core.LSN(c.TransactionEndLSN), CommitTime: c.CommitTime.UTC(), Origin: s.origin}
	for _, m := range s.messages {
		own.take(m)
	}
	maps.Copy(r.relations, own.relations)
	r.all, r.described = append(r.all, own.tx), 0
}

// Where one story was recorded from the same WAL with and without streaming, the same
// transactions come out. Empty ones do not count: whether they come is the server's choice.
func TestStreamedAndPlainReplayAreEqual(t *testing.T) {
	all, err := golden.ReadDir(recordings)
	require.NoError(t, err)
	compared := 0
	for _, r := range all {
		var plain, streamed []simple
		for _, s := range r.Sessions {
			switch {
			case s.Binary() || strings.Contains(s.Options, "two_phase") || strings.Contains(s.Options, "origin 'none'"):
			case s.Streaming():
				streamed = withContent(assembledWith(t, s, 0, Options{Resident: 300, Spill: &memorySpill{}}))
			case s.Protocol == 1 && len(r.Sessions) == 2 || r.Story == "origin":
				plain = withContent(assembled(t, s, 0))
			}
		}
		if len(plain) > 0 && len(streamed) > 0 {
			require.Equal(t, plain, streamed, "%s on Postgres %d", r.Story, r.Major)
			compared += len(plain)
		}
	}
	require.Greater(t, compared, 60)
}

func withContent(all []simple) (some []simple) {
	for _, tx := range all {
		if len(tx.Changes) > 0 {
			some = append(some, tx)
		}
	}
	return some
}
