package pipeline

import "github.com/replicant-sidecar/replicant-sidecar/core"

// What is no row stands between units: all that came before it is durable first, and it
// is durable before anything behind it.

// told takes a logical message that belongs to no transaction.
func (m *Machine) told(message core.Message) error {
	if !m.set.Messages {
		return core.NewHalt(core.HaltUnsupportedMessage, "assemble", "a logical message although messages were not asked for")
	}
	if string(message.Prefix) == core.HeartbeatPrefix {
		m.idle.candidate(message.LSN)
		m.passed(message.LSN)
		return nil
	}
	if message.LSN <= m.ledger.Confirmable() {
		m.count.Skipped++
		return nil
	}
	if err := m.ledger.Received(message.LSN); err != nil {
		return err
	}
	m.seal()
	m.queue = append(m.queue, &entry{message: &message})
	return nil
}

// reshaped takes a changed relation. A sink that is told such changes decides itself.
// Otherwise added columns pass, and anything else stops at this border.
func (m *Machine) reshaped(change *core.SchemaChange) error {
	switch {
	case m.set.SchemaChanges && m.building != nil:
		m.cut()
		m.building.parts = append(m.building.parts, part{core.LargeFrame{SchemaChange: change}, m.building.last()})
		return nil
	case m.set.SchemaChanges:
		m.changes = append(m.changes, change)
		return nil
	case change.Kind == core.SchemaAdditive || m.waives(change):
		return nil
	}
	h := core.NewHalt(core.HaltSchemaDestructive, "assemble", "%s", change.What)
	h.Relation = change.After.String()
	return h
}

// tell queues schema changes: behind what is sealed, before the transaction that brought
// them.
func (m *Machine) tell(changes []*core.SchemaChange) {
	for _, c := range changes {
		m.queue = append(m.queue, &entry{schema: c})
	}
}
