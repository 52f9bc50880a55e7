package sinkv1

import "strings"

const (
	// ErrorDomain is the domain of google.rpc.ErrorInfo for the reasons of this
	// contract (E-101).
	ErrorDomain = "sink.replicant"
	// ReasonMetadata is the trailing metadata key for stacks without error details
	// (E-101).
	ReasonMetadata = "sink-reason"

	reasonPrefix = "ERROR_REASON_"
)

// Wire is the reason as it travels: the name without its prefix, such as "FENCED".
// The unspecified and unknown ones are empty.
func (x ErrorReason) Wire() string {
	name, known := ErrorReason_name[int32(x)]
	if !known || x == ErrorReason_ERROR_REASON_UNSPECIFIED {
		return ""
	}
	return strings.TrimPrefix(name, reasonPrefix)
}

// ParseErrorReason reads what travelled. A word that is not on the list is
// ERROR_REASON_UNSPECIFIED: then the code decides (E-102).
func ParseErrorReason(wire string) ErrorReason {
	if wire == "UNSPECIFIED" {
		return ErrorReason_ERROR_REASON_UNSPECIFIED
	}
	return ErrorReason(ErrorReason_value[reasonPrefix+wire])
}
