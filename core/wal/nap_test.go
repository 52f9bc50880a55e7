package wal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNapOnlyWhileTrafficIsDense(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var n napper
	require.Zero(t, n.rest(start), "nothing is known yet")
	n.note(start, false)
	require.Zero(t, n.rest(start), "one read is no traffic")
	n.note(at(400*time.Microsecond), false)
	require.Equal(t, napLength, n.rest(at(400*time.Microsecond)))
	require.Equal(t, napLength-50*time.Microsecond, n.rest(at(450*time.Microsecond)), "the caller's own time counts")
	require.Zero(t, n.rest(at(690*time.Microsecond)), "a rest that is not worth it")
	require.Zero(t, n.rest(at(time.Second)))
	n.note(at(700*time.Microsecond), true)
	require.Zero(t, n.rest(at(700*time.Microsecond)), "more is waiting")
	n.note(at(2*time.Millisecond), false)
	require.Zero(t, n.rest(at(2*time.Millisecond)), "sparse traffic")
}

func TestNapSleepsAndOffDoesNot(t *testing.T) {
	for _, off := range []bool{false, true} {
		n := napper{off: off}
		n.after(false)
		n.after(false)
		begun := time.Now()
		n.before()
		if off {
			require.Zero(t, n.last)
			continue
		}
		require.GreaterOrEqual(t, time.Since(begun), napLength-50*time.Microsecond)
	}
}

func TestServerMajor(t *testing.T) {
	for version, want := range map[string]int{"14.23": 14, "16.14 (Debian 16.14-1)": 16, "18beta1": 18, "19devel": 19} {
		got, err := serverMajor(version)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, version := range []string{"", "x17", "9.6.24", "13.9"} {
		_, err := serverMajor(version)
		require.Error(t, err, version)
	}
}

func TestStartCommandQuotes(t *testing.T) {
	require.Equal(t, `START_REPLICATION SLOT "s" LOGICAL 1/A (proto_version '1', publication_names '"a","o''b ""c"", d"', messages 'true')`,
		startCommand(Options{Slot: "s", Publications: []string{"a", `o'b "c", d`}, Messages: true}, 17, 0x1_0000_000a))
	for major, protocol := range map[int]string{14: "2", 15: "2", 16: "4", 17: "4", 18: "4", 19: "4"} {
		require.Equal(t, `START_REPLICATION SLOT "s" LOGICAL 0/1 (proto_version '`+protocol+`', publication_names '"p"', streaming 'on')`,
			startCommand(Options{Slot: "s", Publications: []string{"p"}, Streaming: true}, major, 1))
	}
}

func TestStartupParametersAreOurs(t *testing.T) {
	parameters := map[string]string{"datestyle": "German", "TIMEZONE": "Asia/Tokyo", "options": "-c x.y=z"}
	pinStartup(parameters)
	require.Equal(t, "ISO, MDY", parameters["DateStyle"])
	require.NotContains(t, parameters, "datestyle")
	require.NotContains(t, parameters, "TIMEZONE")
	require.NotContains(t, parameters, "transaction_timeout", "unknown to 14, which would refuse the connection")
	require.Equal(t, "-c x.y=z", parameters["options"])
}
