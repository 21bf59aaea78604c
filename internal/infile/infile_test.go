// SPDX-License-Identifier: Apache-2.0

package infile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

var kind = Kind{What: "policy", Most: 8, Name: "name a policy", Larger: "split it"}

// Each of these blocks or never ends if it is opened and read naively; the test would not finish.
func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := unix.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", at("link")); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	for path, want := range map[string]string{
		at("fifo"): "it is a pipe: write its content to a file first", "/dev/zero": "it is a device", at("link"): "it is a device",
		"/dev/tty": "/dev/tty", at("socket"): "no regular file", dir: "it is a folder", at("none"): "no such file", at("fifo/x"): "not a directory",
	} {
		t.Run(path, func(t *testing.T) {
			_, err := kind.Read(path)
			if err == nil || !strings.Contains(err.Error(), want) || fault.Of(err) != fault.Usage || fault.Advice(err) != kind.Name {
				t.Errorf("%s: %v (try: %s), want %q", path, err, fault.Advice(err), want)
			}
		})
	}
	// The kernel's log returns its content, then blocks.
	if _, err := (Kind{What: "policy", Most: 1 << 30, Name: "name a policy"}).Read("/proc/kmsg"); err == nil {
		t.Error("/proc/kmsg has an end")
	}
	if _, err := kind.Read(at("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v does not wrap fs.ErrNotExist", err)
	}
}

func TestNoMoreIsReadThanIsAllowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for size, want := range map[int]string{0: "", 8: "", 9: "has 9 octets; 8 are allowed"} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := kind.Read(path)
		if want == "" && (err != nil || len(text) != size) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || fault.Advice(err) != kind.Larger) {
			t.Errorf("%d octets: %d read, %v", size, len(text), err)
		}
	}
	// A file that reports the size 0 and has content.
	if _, err := kind.Read("/proc/self/status"); err == nil || !strings.Contains(err.Error(), "more than 8 octets") {
		t.Errorf("/proc/self/status: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("x"), uint8(0))
	f.Add([]byte("12345678"), uint8(8))
	f.Fuzz(func(t *testing.T, content []byte, most uint8) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		k := kind
		k.Most = int64(most)
		text, err := k.Read(path)
		if (err == nil) != (len(content) <= int(most)) || err == nil && string(text) != string(content) {
			t.Errorf("%d octets of at most %d: %q, %v", len(content), most, text, err)
		}
	})
}
