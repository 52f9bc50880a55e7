package core

import (
	"encoding/binary"
	"hash/fnv"
)

// Limits of one relation, from Postgres itself and from the wire contract.
const (
	ColumnsMax = 1600 // columns of one table, MaxHeapAttributeNumber
)

// ReplicaIdentity says which old columns the stream carries for an update or delete.
// Source: https://www.postgresql.org/docs/current/sql-altertable.html (REPLICA IDENTITY)
type ReplicaIdentity byte

// The four identities, with pgoutput's own letters.
const (
	IdentityDefault ReplicaIdentity = 'd'
	IdentityNothing ReplicaIdentity = 'n'
	IdentityFull    ReplicaIdentity = 'f'
	IdentityIndex   ReplicaIdentity = 'i'
)

// String names the identity as ALTER TABLE spells it, in lower case.
func (r ReplicaIdentity) String() string {
	switch r {
	case IdentityDefault:
		return "default"
	case IdentityNothing:
		return "nothing"
	case IdentityFull:
		return "full"
	case IdentityIndex:
		return "index"
	}
	return "unknown"
}

// Column describes one column of a relation as it is streamed.
type Column struct {
	Name    string
	TypeOID uint32
	// TypeModifier is Postgres' atttypmod, -1 when there is none.
	TypeModifier int32
	// Identity is true when the column is part of the replica identity, as streamed.
	Identity bool
	// PrimaryKeyPosition is 1 for the first column of the primary key, 0 when the
	// column is not in it or the catalog could not be asked.
	PrimaryKeyPosition uint32
	// TypeName, BaseTypeOID (of a domain) and ElementTypeOID (of an array) are told
	// where known. They may go stale and are no part of the relation's shape.
	TypeName       string
	BaseTypeOID    uint32
	ElementTypeOID uint32
}

// Relation is a table as the stream described it. It is immutable once it was handed
// on: a new description is a new Relation.
type Relation struct {
	OID      uint32
	Schema   string
	Name     string
	Identity ReplicaIdentity
	Columns  []Column
}

// String is schema and name joined for people. It is not a key: names may hold dots.
func (r *Relation) String() string { return r.Schema + "." + r.Name }

// ShapeHash is equal for two descriptions with equal names, types, modifiers and
// identity. Type names and catalog facts are left out: they go stale without a sign.
func (r *Relation) ShapeHash() uint64 {
	h := fnv.New64a()
	var number [8]byte
	text := func(s string) {
		binary.BigEndian.PutUint64(number[:], uint64(len(s)))
		_, _ = h.Write(number[:])
		_, _ = h.Write([]byte(s))
	}
	binary.BigEndian.PutUint32(number[:4], r.OID)
	_, _ = h.Write(number[:4])
	text(r.Schema)
	text(r.Name)
	_, _ = h.Write([]byte{byte(r.Identity)})
	for i := range r.Columns {
		c := &r.Columns[i]
		text(c.Name)
		binary.BigEndian.PutUint32(number[:4], c.TypeOID)
		binary.BigEndian.PutUint32(number[4:], uint32(c.TypeModifier))
		_, _ = h.Write(number[:])
		flag := byte(0)
		if c.Identity {
			flag = 1
		}
		_, _ = h.Write([]byte{flag})
	}
	return h.Sum64()
}
