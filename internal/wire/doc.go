// Package wire turns core's nouns into the messages of proto/sink/v1 and back, and
// gRPC's answers into core's classes of failure and back. Both sides of the wire,
// remotesink and sdk/go, stand on it and so cannot differ.
//
// The calls that carry rows are encoded by hand: a core.Tuple already is the encoding
// of a Row message, so that a row goes out with one copy and comes in as a view on the
// received bytes. Tests hold the hand-written code against the generated one. All
// other messages go through the generated code.
//
// Whatever comes in is checked here, once: unknown enum values and letters, widths,
// references and zero positions are refused with a *FieldError, which names the field
// and never shows a value.
package wire
