// SPDX-License-Identifier: Apache-2.0

package analyzer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"weir/tester"
)

var reasons = map[analyzerReason]string{
	analyzerReasonREASON_CONTEXT:       "context",
	analyzerReasonREASON_GAP:           "gap",
	analyzerReasonREASON_REORDERED:     "reordered",
	analyzerReasonREASON_DUPLICATE:     "duplicate",
	analyzerReasonREASON_OUT_OF_WINDOW: "out of window",
	analyzerReasonREASON_PAYLOAD:       "payload",
	analyzerReasonREASON_HEADER:        "header",
	analyzerReasonREASON_RESTART:       "restart",
	analyzerReasonREASON_MISNUMBERED:   "misnumbered",
}

// capturedHeader is the offset of the bytes in struct captured.
const capturedHeader = 32

// Captured returns the frames captured since the last call, in the order of arrival on one queue:
// up to 16 before each error and 16 after it, the first 256 octets of each. Frames beyond 1 MiB
// between two calls are counted in Analysis.Uncaptured. Captured requires Options.Capture; calls
// must not overlap.
func (a *Analyzer) Captured() ([]tester.CapturedFrame, error) {
	var frames []tester.CapturedFrame
	a.reader.SetDeadline(time.Unix(1, 0)) // read available records only
	for {
		record, err := a.reader.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return frames, nil
		}
		if err != nil {
			return frames, fmt.Errorf("read capture: %w", err)
		}
		frame, err := decode(record.RawSample)
		if err != nil {
			return frames, err
		}
		frames = append(frames, frame)
	}
}

// decode decodes a struct captured and copies its bytes.
func decode(sample []byte) (tester.CapturedFrame, error) {
	if len(sample) < capturedHeader {
		return tester.CapturedFrame{}, fmt.Errorf("read capture: %d octets are no captured frame", len(sample))
	}
	kept := int(binary.LittleEndian.Uint32(sample[28:]))
	if kept < 0 || kept > len(sample)-capturedHeader {
		return tester.CapturedFrame{}, fmt.Errorf("read capture: a frame of %d octets in %d", kept, len(sample))
	}
	return tester.CapturedFrame{
		At:       time.Duration(binary.LittleEndian.Uint64(sample)),
		Sequence: binary.LittleEndian.Uint64(sample[8:]),
		Stream:   uint16(binary.LittleEndian.Uint32(sample[16:])),
		Reason:   reasons[analyzerReason(binary.LittleEndian.Uint32(sample[20:]))],
		Length:   int(binary.LittleEndian.Uint32(sample[24:])),
		Data:     append([]byte(nil), sample[capturedHeader:capturedHeader+kept]...),
	}, nil
}
