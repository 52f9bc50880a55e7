package pipeline

import "errors"

// forgets reports that the server may forget a table that is added to a publication.
func (p *Pipeline) forgets() bool {
	return p.options.forgets || !addsWhole(p.Status().ServerVersion)
}

// addsWhole reports that the server streams a table, from when it is added to a publication,
// though a writer of it is open. Older minors forget the table until the stream begins anew.
func addsWhole(version int) bool {
	first := map[int]int{14: 14_00_18, 15: 15_00_13, 16: 16_00_09, 17: 17_00_05}[version/10_000]
	return version >= first
}

var errForgets = errors.New("a table is new to the stream, and a server of this version may leave out its changes until then")

// restart ends a session for the tables that the server may have forgotten, while nothing is
// with the sink. Where the next one begins, their writers have ended.
func (l *loop) restart() error {
	if l.readers == nil || l.machine.InFlight() {
		return nil
	}
	at, due := l.machine.set.Run.Restart()
	if !due || l.machine.Confirmable() < at {
		return nil
	}
	return &again{StateStarting, reconnectMin, errForgets}
}
