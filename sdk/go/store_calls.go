package sink

import "github.com/replicant-sidecar/replicant-sidecar/core"

// withCalls is the sink with exactly the calls that its store has interfaces for: what
// has a method is advertised.
func (s *storeSink) withCalls() core.Sink {
	messages, takesMessages := s.store.(MessageStore)
	snapshots, takesSnapshots := s.store.(SnapshotStore)
	message, schema, snapshot := storeMessages{s, messages}, storeSchemas{s, s.schemas}, storeSnapshots{s, snapshots}
	switch {
	case takesMessages && s.schemas != nil && takesSnapshots:
		return struct {
			*storeSink
			storeMessages
			storeSchemas
			storeSnapshots
		}{s, message, schema, snapshot}
	case takesMessages && takesSnapshots:
		return struct {
			*storeSink
			storeMessages
			storeSnapshots
		}{s, message, snapshot}
	case s.schemas != nil && takesSnapshots:
		return struct {
			*storeSink
			storeSchemas
			storeSnapshots
		}{s, schema, snapshot}
	case takesSnapshots:
		return struct {
			*storeSink
			storeSnapshots
		}{s, snapshot}
	}
	return s.withoutSnapshots(message, schema)
}

func (s *storeSink) withoutSnapshots(message storeMessages, schema storeSchemas) core.Sink {
	switch {
	case message.store != nil && s.schemas != nil:
		return struct {
			*storeSink
			storeMessages
			storeSchemas
		}{s, message, schema}
	case message.store != nil:
		return struct {
			*storeSink
			storeMessages
		}{s, message}
	case s.schemas != nil:
		return struct {
			*storeSink
			storeSchemas
		}{s, schema}
	}
	return s
}
