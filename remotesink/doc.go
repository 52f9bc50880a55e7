// Package remotesink is a core.Sink that lives in another process, behind the gRPC
// contract of proto/sink/v1. It implements every one-capability interface of core; what
// the sink really offers its Capabilities say.
//
// It never repeats a call: whether a unit may be sent again is for the engine to say,
// which knows the position. Every failure comes back as a classified *core.SinkError.
package remotesink
