package logging

// Keys of log attributes, so that one thing has one name in every line.
const (
	KeyState    = "state"
	KeyReason   = "reason"
	KeyCode     = "code"
	KeyExit     = "exit_code"
	KeySlot     = "slot"
	KeyStream   = "stream"
	KeySource   = "source"
	KeySink     = "sink"
	KeyAddress  = "address"
	KeySignal   = "signal"
	KeyPID      = "pid"
	KeyVersion  = "version"
	KeyPosition = "position"
)
