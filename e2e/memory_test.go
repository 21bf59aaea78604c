// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/kernel/testutil"
)

// A daemon with 10,000 scopes takes at most 100 MB, including the apply, scrapes, and answers of
// its API.
func TestADaemonOfTenThousandScopesTakesAHundredMegabytes(t *testing.T) {
	const scopes, most = 10_000, 100 << 20
	cmd, stdout, stderr := boxed(t, `env -u GOMEMLIMIT -u GOGC "$WEIR" daemon --quiet --socket "$PWD/api" many.yaml & daemon=$!
echo $daemon > pid.part; mv pid.part pid
while [ ! -e done ] && kill -0 $daemon; do sleep 0.1; done
kill $daemon; wait $daemon
"$WEIR" release --quiet`)
	var policy strings.Builder
	policy.WriteString("version: 1\nscopes:\n")
	for i := range scopes {
		selector := [...]string{"cgroup: /tenant-%d", "prefix: 2001:db8:%x::/48", "user: %d"}[i%3]
		fmt.Fprintf(&policy, "  scope-%d: {"+selector+", egress: {rate: 200Mbit, mode: police}}\n", i, i)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(cmd.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("many.yaml", policy.String())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var failed error
	go func() { failed = cmd.Wait(); close(ended) }()
	defer func() {
		write("done", "")
		if <-ended; failed != nil || t.Failed() {
			t.Errorf("%v: %s%s", failed, stdout, stderr)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(cmd.Dir, "api"))
	}}}
	defer client.CloseIdleConnections()
	get := func(path string, into io.Writer) int {
		answer, err := client.Get("http://weir" + path)
		if err != nil {
			return 0
		}
		defer func() { _ = answer.Body.Close() }()
		if _, err := io.Copy(into, answer.Body); err != nil {
			return 0
		}
		return answer.StatusCode
	}
	testutil.Eventually(t, 5*time.Minute, "the active policy, or the end of the daemon", func() bool {
		select {
		case <-ended:
			return true
		default:
			return get("/healthz", io.Discard) == http.StatusOK
		}
	})
	for range 3 {
		var text bytes.Buffer
		if status := get("/metrics", &text); status != http.StatusOK {
			t.Fatalf("a scrape: %d", status)
		}
		if n := bytes.Count(text.Bytes(), []byte("\nweir_scope_packets_total{")); n != scopes {
			t.Errorf("a scrape tells of %d scopes", n)
		}
		text.Reset()
		if status := get("/v1/status", &text); status != http.StatusOK {
			t.Fatalf("a status: %d", status)
		}
		if n := bytes.Count(text.Bytes(), []byte(`"promise":`)); n != scopes {
			t.Errorf("a status tells of %d scopes", n)
		}
	}
	if peak := peakMemory(t, filepath.Join(cmd.Dir, "pid")); peak > most {
		t.Errorf("the daemon took %d octets at most, want %d", peak, most)
	}
}

// peakMemory returns the maximum resident memory of a process, in bytes; its id is in a file.
func peakMemory(t *testing.T, pid string) int {
	t.Helper()
	id, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(id)), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(peak)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("peak of the daemon: %d KiB", kib)
	return kib << 10
}
