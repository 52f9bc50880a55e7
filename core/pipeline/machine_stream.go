package pipeline

// A transaction that was streamed in progress is held by the assembler until its commit was
// read. From then on it is taken as if its messages came now, by the same rules for size,
// order and memory; only that they come from the assembler and not from the socket.

// Replay goes on with a streamed transaction that has committed, as far as there is room.
// It must be called whenever there may be room again.
func (m *Machine) Replay() {
	for m.asm.Replaying() && m.room() {
		m.took(m.asm.Replay())
	}
}

// Replaying reports that the rest of what is being taken is here and not at the server.
func (m *Machine) Replaying() bool { return m.asm.Replaying() }
