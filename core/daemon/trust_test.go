// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/policy"
	"weir/kernel/testutil"
)

// The daemon retries a change that failed for a temporary reason, without another edit of the file.
func TestAFailedChangeIsRetried(t *testing.T) {
	e := setup(t)
	testutil.Mkdir(t, e.CgroupRoot, "a")
	s := service(t, e, oneScope)
	s.Look = 20 * time.Millisecond
	start(t, s)
	lock, err := os.OpenFile(filepath.Join(e.StateDir, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	testutil.Write(t, s.Policy, strings.Replace(oneScope, "1Mbit", "7Mbit", 1))
	testutil.Eventually(t, patience, "the report", func() bool { return strings.Contains(trouble(t, e), "another process has held") })
	testutil.Eventually(t, patience, "failing health", func() bool { return s.health.fails(applying) })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the change", func() bool { return egress(t, e) == 7e6 && trouble(t, e) == "" })
	testutil.Eventually(t, patience, "good health", func() bool { return !s.health.fails(applying) && !s.health.fails(binding) })
	testutil.Write(t, s.Policy, "a mistake")
	testutil.Eventually(t, patience, "the report of the mistake", func() bool { return trouble(t, e) != "" })
	if s.health.fails(applying) {
		t.Error("a mistake in the policy file fails the health check")
	}
}

func TestAFileThatOthersMayWriteIsWarnedOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o664: true, 0o602: true} {
		testutil.Write(t, file, oneScope)
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if got := policy.Exposed(file); (len(got) == 1) != warned {
			t.Errorf("mode %o: %q", mode, got)
		}
	}
}

// Clients that do not read their responses do not delay other clients, on root's socket either.
func TestSlowReadersBlockNobody(t *testing.T) {
	var text strings.Builder
	text.WriteString("version: 1\nscopes:\n")
	for i := range 300 {
		fmt.Fprintf(&text, "  s%d: {user: %d, egress: {rate: 1Mbit, mode: police}}\n", i, i+1)
	}
	s, client := served(t, text.String())
	for range 8 {
		conn, err := net.Dial("unix", s.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: weir\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if status, answer := ask(t, client, "GET", "/metrics", ""); status != http.StatusOK || !strings.Contains(string(answer), "weir_scope_bytes_total") {
		t.Errorf("status %d", status)
	}
}

// The daemon reattaches a removed program at the next event.
func TestTheDaemonRestoresARemovedProgram(t *testing.T) {
	e := setup(t)
	testutil.Mkdir(t, e.CgroupRoot, "a")
	start(t, service(t, e, oneScope))
	testutil.Remove(t, filepath.Join(e.PinDir, "limit", "link-1"))
	testutil.Mkdir(t, e.CgroupRoot, "other") // causes an event
	becomes(t, e, "a", "enforced")
	testutil.Eventually(t, patience, "the attachments", func() bool { return testutil.CountPrograms(t, e.CgroupRoot) == [3]int{1, 0, 1} })
}
