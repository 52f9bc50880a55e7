package incremental

import "github.com/replicant-sidecar/replicant-sidecar/core"

// what the stream did to a key.
type what uint8

const (
	nothing what = iota
	full         // it carried the whole row
	partial      // it carried some columns of a row that stayed where it was
	deleted
	hole // it brought a row to this key without carrying all of it
)

// entry is one thing that the stream did to one key. image is set for partial.
type entry struct {
	key   keyBytes
	what  what
	image core.Tuple
}

// then is what two things in a row come to.
func (e entry) then(next entry) entry {
	switch {
	case next.what != partial, e.what == nothing:
		return next
	case e.what == partial:
		next.image = merged(next.image, e.image)
		return next
	}
	return e // full stays full, a hole stays a hole
}

// entries is what the stream did to the rows of one relation, in its order, while windows
// of it are open. A window judges from where it opened.
type entries struct {
	list  []entry
	first int // index of list[0], counted since the run began
	bytes int
}

const entryBytes = 64 // beside key and image, generously

func (e *entries) add(x entry) {
	e.list = append(e.list, x)
	e.bytes += entryBytes + len(x.key) + len(x.image.Packed())
}

func (e *entries) next() int { return e.first + len(e.list) }

// forget drops what is before an index.
func (e *entries) forget(before int) {
	n := min(before-e.first, len(e.list))
	if n <= 0 {
		return
	}
	for i := range n {
		e.bytes -= entryBytes + len(e.list[i].key) + len(e.list[i].image.Packed())
	}
	clear(e.list[:n])
	e.list = e.list[n:]
	e.first += n
	if len(e.list) == 0 {
		e.list = nil
	}
}

// since is what the stream did to each key from an index on.
func (e *entries) since(from int) map[keyBytes]entry {
	all := map[keyBytes]entry{}
	for _, x := range e.list[from-e.first:] {
		all[x.key] = all[x.key].then(x)
	}
	return all
}
