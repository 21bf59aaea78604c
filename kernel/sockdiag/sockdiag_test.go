// SPDX-License-Identifier: Apache-2.0

package sockdiag

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{"listen": listen})
	os.Exit(m.Run())
}

// listen opens a TCP and a UDP socket for every line of its input, and keeps them.
func listen(in io.Reader, out io.Writer) error {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		stream, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		datagrams, err := net.ListenPacket("udp6", "[::1]:0")
		if err != nil {
			return err
		}
		defer func() { _ = datagrams.Close() }()
		if _, err := fmt.Fprintln(out, "open"); err != nil {
			return err
		}
	}
	return nil
}

// Sockets opened before a process moves belong to the former cgroup; later ones do not, even if the
// process moves further down.
func TestEscapedAreSocketsFromBeforeTheMove(t *testing.T) {
	outer := testutil.Cgroup(t)
	inner, err := cgroup.Create(outer.Path, "inner")
	if err != nil {
		t.Fatal(err)
	}
	process, err := child.Start(context.Background(), "listen", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop(5 * time.Second) })
	answers := bufio.NewScanner(process.Out)
	open := func() {
		t.Helper()
		if _, err := fmt.Fprintln(process.In); err != nil || !answers.Scan() {
			t.Fatal("the process has ended", err)
		}
	}
	for _, step := range []struct {
		name         string
		move         cgroup.Cgroup
		outer, inner int // number of escaped sockets
	}{
		{"opened outside", outer, 2, 0},
		{"opened in the cgroup above", inner, 2, 4},
		{"opened inside", inner, 2, 4},
	} {
		open()
		if err := step.move.Add(process.PID()); err != nil {
			t.Fatal(err)
		}
		for group, want := range map[cgroup.Cgroup]int{outer: step.outer, inner: step.inner} {
			got := escaped(t, group)
			if len(got) != want {
				t.Errorf("%s: %d sockets have escaped from %s, want %d: %+v", step.name, len(got), group.Path, want, got)
			}
			for _, e := range got {
				if e.PID != process.PID() || e.Command == "" || e.Inode == 0 {
					t.Errorf("%s: got %+v, want process %d", step.name, e, process.PID())
				}
			}
		}
	}
}

func escaped(t *testing.T, group cgroup.Cgroup) []Escape {
	t.Helper()
	id, err := group.ID()
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := TakeSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	got, err := snapshot.Escaped(id)
	if errors.Is(err, ErrNoCgroups) {
		testutil.Need(t, "INET_DIAG_CGROUP_ID", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestACgroupThatDoesNotExistHasNoEscapes(t *testing.T) {
	snapshot, err := TakeSnapshot()
	if err != nil {
		testutil.Need(t, "cgroup v2", err)
	}
	if got, err := snapshot.Escaped(1 << 60); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// message returns a struct inet_diag_msg of inode 7, with 9 bytes to send and the attributes.
func message(attributes ...byte) []byte {
	m := make([]byte, messageLength)
	binary.NativeEndian.PutUint32(m[inodeOffset:], 7)
	binary.NativeEndian.PutUint32(m[unsentOffset:], 9)
	return append(m, attributes...)
}

func inState(state uint8, message []byte) []byte {
	message[stateOffset] = state
	return message
}

func TestParse(t *testing.T) {
	group := binary.NativeEndian.AppendUint64([]byte{12, 0, cgroupID, 0}, 4711)
	for _, test := range []struct {
		name    string
		message []byte
		inode   uint64
		cgroup  uint64
		unsent  uint32
		fails   bool
	}{
		{"the cgroup alone", message(group...), 7, 4711, 9, false},
		{"behind an attribute of odd length", message(append([]byte{5, 0, 1, 0, 9, 0, 0, 0}, group...)...), 7, 4711, 9, false},
		{"listening", inState(listening, message(group...)), 7, 4711, 0, false},
		{"established", inState(1, message(group...)), 7, 4711, 9, false},
		{"a SYN", inState(synSent, message(group...)), 7, 4711, 8, false},
		{"a FIN behind data", inState(finWait1, message(group...)), 7, 4711, 8, false},
		{"the last FIN", inState(lastAck, message(group...)), 7, 4711, 8, false},
		{"a FIN that crosses another", inState(closing, message(group...)), 7, 4711, 8, false},
		{"a FIN that was acknowledged", inState(finWait1, make([]byte, messageLength)), 0, 0, 0, false},
		{"without a process", make([]byte, messageLength), 0, 0, 0, false},
		{"without a cgroup", message(5, 0, 1, 0, 9), 0, 0, 0, true},
		{"an attribute without length", message(0, 0, cgroupID, 0), 0, 0, 0, true},
		{"an attribute beyond the end", message(12, 0, cgroupID, 0), 0, 0, 0, true},
		{"too short", message()[:messageLength-1], 0, 0, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parse(test.message)
			if (err != nil) != test.fails || err == nil && got != (socket{test.inode, test.cgroup, test.unsent}) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, messageLength))
	f.Add(message(12, 0, cgroupID, 0, 1, 2, 3, 4, 5, 6, 7, 8))
	f.Fuzz(func(t *testing.T, message []byte) {
		if s, err := parse(message); err == nil && s.inode > 1<<32-1 {
			t.Errorf("inode %d", s.inode)
		}
	})
}
