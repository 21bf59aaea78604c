// SPDX-License-Identifier: Apache-2.0

package rawsock

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// message builds a control message as the kernel does.
func message(level, kind int, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = int32(level), int32(kind)
	h.SetLen(unix.CmsgLen(len(data)))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

func stamped(seconds, nanoseconds uint64) []byte {
	return message(unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS,
		binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, seconds), nanoseconds))
}

func withTag(status uint32, tci, tpid uint16) []byte {
	data := make([]byte, unsafe.Sizeof(auxiliary{}))
	*(*auxiliary)(unsafe.Pointer(&data[0])) = auxiliary{status: status, tci: tci, tpid: tpid}
	return message(unix.SOL_PACKET, unix.PACKET_AUXDATA, data)
}

func TestParseControl(t *testing.T) {
	const valid, withTPID = unix.TP_STATUS_VLAN_VALID, unix.TP_STATUS_VLAN_TPID_VALID
	for _, c := range []struct {
		name    string
		control []byte
		at      int64
		tag     [4]byte
	}{
		{"stamp alone", stamped(3, 7), 3e9 + 7, [4]byte{}},
		{"tag without type", append(withTag(valid, 0x2064, 0), stamped(1, 0)...), 1e9, [4]byte{0x81, 0, 0x20, 0x64}},
		{"tag with type", append(stamped(1, 0), withTag(valid|withTPID, 6, 0x88a8)...), 1e9, [4]byte{0x88, 0xa8, 0, 6}},
		{"no tag", append(stamped(1, 0), withTag(0, 6, 0x88a8)...), 1e9, [4]byte{}},
	} {
		if at, tag := parse(c.control); int64(at) != c.at || tag != c.tag {
			t.Errorf("%s: at %d tag %x, want %d %x", c.name, at, tag, c.at, c.tag)
		}
	}
	if at, _ := parse(nil); at <= 0 {
		t.Error("a frame without a stamp did not arrive now")
	}
}

func FuzzParseControl(f *testing.F) {
	f.Add(append(stamped(1, 2), withTag(unix.TP_STATUS_VLAN_VALID, 1, 2)...))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, control []byte) {
		aligned := make([]byte, len(control)) // as the kernel's buffer is
		copy(aligned, control)
		if at, _ := parse(aligned); len(control) < 16 && at <= 0 {
			t.Error("a frame without a stamp did not arrive now")
		}
	})
}
