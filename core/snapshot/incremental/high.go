package incremental

import "github.com/replicant-sidecar/replicant-sidecar/core"

// HighMark is the end of the WAL as the stream will tell it. On an idle server the insert
// position can stand behind the header of a page that holds nothing yet; no record ends in
// there, and the stream never tells such a position.
func HighMark(insert core.LSN, block, segment uint64) core.LSN {
	const header, firstHeader = 24, 40 // of a page, and of the first page of a segment
	into := uint64(insert) % block
	switch {
	case into == firstHeader && (uint64(insert)-into)%segment == 0,
		into == header && (uint64(insert)-into)%segment != 0:
		return insert - core.LSN(into)
	}
	return insert
}
