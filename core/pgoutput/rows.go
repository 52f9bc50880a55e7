package pgoutput

func (r *reader) begin(m *Message) {
	m.LSN = r.lsn()
	m.Time = int64(r.uint64())
	m.XID = r.uint32()
}

func (r *reader) commit(m *Message) {
	r.flags(0)
	m.LSN = r.lsn()
	m.EndLSN = r.lsn()
	m.Time = int64(r.uint64())
}

func (r *reader) insert(m *Message) {
	m.RelationOID = r.uint32()
	r.newImage(m, r.uint8())
}

func (r *reader) update(m *Message) {
	m.RelationOID = r.uint32()
	letter := r.uint8()
	if letter == OldKey || letter == OldRow {
		m.OldKind, m.Old = letter, r.tuple()
		letter = r.uint8()
	}
	r.newImage(m, letter)
}

func (r *reader) delete(m *Message) {
	m.RelationOID = r.uint32()
	letter := r.uint8()
	if letter != OldKey && letter != OldRow {
		r.fail("row image letter 0x%02x, not K or O", letter)
		return
	}
	m.OldKind, m.Old = letter, r.tuple()
}

func (r *reader) newImage(m *Message, letter byte) {
	if letter != newRow {
		r.fail("row image letter 0x%02x, not N", letter)
		return
	}
	m.HasNew, m.New = true, r.tuple()
}
