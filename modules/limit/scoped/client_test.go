// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A lender that has not moved the command is an error: its cgroup would be that of the user.
func TestACommandThatTheLenderHasNotMovedDoesNotStart(t *testing.T) {
	for _, response := range []string{`{}`, `{"refusal": {"status": 2, "error": "no"}}`} {
		dir := t.TempDir()
		socket, made := filepath.Join(dir, "lend.sock"), filepath.Join(dir, "made")
		listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			request := make([]byte, MaxMessage)
			_, _ = conn.Read(request)
			_, _ = conn.Write([]byte(response))
			_, _ = conn.Read(request) // until the client closes it
		}()
		c := Command{Args: []string{"touch", made}}
		_, _, err = RunLent(t.Context(), c, socket)
		if err == nil || !strings.Contains(err.Error(), "has not moved the command") {
			t.Errorf("%s: %v", response, err)
		}
		if _, err := os.Stat(made); err == nil {
			t.Errorf("%s: the command has run", response)
		}
	}
}
