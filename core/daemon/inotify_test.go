// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// event returns an inotify event in the kernel's format.
func event(mask uint32, name string) []byte {
	b := make([]byte, unix.SizeofInotifyEvent+16)
	binary.NativeEndian.PutUint32(b[4:], mask)
	binary.NativeEndian.PutUint32(b[12:], 16)
	copy(b[unix.SizeofInotifyEvent:], name)
	return b
}

func TestEventsThatMatterAreFound(t *testing.T) {
	w := &watcher{matters: func(name string) bool { return name == "a" }}
	for _, test := range []struct {
		name   string
		events []byte
		want   bool
	}{
		{"the entry", event(unix.IN_CREATE, "a"), true},
		{"another entry", event(unix.IN_CREATE, "ab"), false},
		{"the second of two", append(event(unix.IN_CREATE, "b"), event(unix.IN_DELETE, "a")...), true},
		{"a watch that has ended", event(unix.IN_IGNORED, "a"), false},
		{"events were lost", event(unix.IN_Q_OVERFLOW, ""), true},
		{"a name that is cut off", event(unix.IN_CREATE, "b")[:20], true},
		{"half an event", event(unix.IN_CREATE, "a")[:10], false},
		{"nothing", nil, false},
	} {
		if got := w.any(test.events); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}

// Parsing ends for any input, and a watcher with a filter finds no more events than one without.
func FuzzEvents(f *testing.F) {
	f.Add(event(unix.IN_CREATE, "a"))
	f.Add(append(event(unix.IN_IGNORED, ""), event(unix.IN_CREATE, "b")...))
	f.Add(event(unix.IN_Q_OVERFLOW, "")[:20])
	f.Fuzz(func(t *testing.T, events []byte) {
		w, all := &watcher{matters: func(name string) bool { return name == "a" }}, &watcher{}
		if w.any(events) && !all.any(events) {
			t.Error("a filter found more than no filter")
		}
	})
}
