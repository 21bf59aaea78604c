// SPDX-License-Identifier: Apache-2.0

// Package wire decodes BGP routes: MRT files ([Reader]), UPDATEs ([Update]) and path attributes
// ([Attrs], [View]). It reads and writes OPENs ([Open]). It makes no system call beyond reading
// files.
//
// A decoder returns slices of its input instead of copies and allocates nothing per route. A slice
// of a [Route] is valid until the next call of [Reader.Next]; copy it (rib.Table.Set does) to keep
// it.
package wire

import "fmt"

// Error is a fault in an MRT file.
type Error struct {
	Offset  int64  // of the fault in the decompressed file, in bytes
	Records int    // complete records before it
	Reason  string // a phrase without position
	Err     error  // cause; nil if Reason is all
}

func (e *Error) Error() string {
	text := fmt.Sprintf("MRT: byte %d: %s", e.Offset, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	switch e.Records {
	case 0:
		return text + " (no complete record before)"
	case 1:
		return text + " (after 1 complete record)"
	}
	return fmt.Sprintf("%s (after %d complete records)", text, e.Records)
}

func (e *Error) Unwrap() error { return e.Err }
