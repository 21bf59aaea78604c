// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/modules/limit/police"
)

// FormatLend is the format of a [Request].
const FormatLend = "weir-lend/1"

// MaxMessage is the maximum size of a message to or from a lender, in bytes.
const MaxMessage = 16 << 10

// Request is a user's request to a lender, over a SOCK_SEQPACKET socket. The first message has the
// pidfd (pidfd_open(2)) of the process to limit; the lender responds after moving that process into
// its cgroup. An empty second Request returns the counters. Closing the connection ends the limits.
type Request struct {
	Format  string                                `json:"format"`
	Class   string                                `json:"class,omitempty"`
	Limits  map[direction.Direction]units.BitRate `json:"limits,omitempty"`
	Shadow  bool                                  `json:"shadow,omitempty"`
	Command []string                              `json:"command,omitempty"` // for display only
}

// Response is a lender's response.
type Response struct {
	Rejection *Rejection                               `json:"rejection,omitempty"` // nothing was changed
	Notes     []string                                 `json:"notes,omitempty"`     // requested features that are unavailable
	Counted   map[direction.Direction]*police.Counters `json:"counted,omitempty"`
	Class     json.RawMessage                          `json:"class,omitempty"` // result of the class, as in weir run --format json
}

// Rejection is an error with its advice.
type Rejection struct {
	Status fault.Status `json:"status"`
	Error  string       `json:"error"`
	Try    string       `json:"try,omitempty"`
}

// Socket returns the path of the lender's socket: lend.sock below WEIR_RUN_DIR, or below /run/weir.
func Socket() string { return filepath.Join(filepath.Dir(registry()), "lend.sock") }

// lender is a connection to a lender.
type lender struct{ *net.UnixConn }

const lenderAdvice = "run it as root, or have an administrator start a lender: weir lend --help"

// A lender with a full backlog is tried busyTries times, busyPause apart.
const (
	busyTries = 100
	busyPause = 50 * time.Millisecond
)

func dialLender(path string) (lender, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	for try := 1; try < busyTries && errors.Is(err, unix.EAGAIN); try++ {
		time.Sleep(busyPause)
		conn, err = net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return lender{}, fault.New(fault.Testbed, "try again, or have an administrator find the process that keeps its connections open", "the lender at %s has been busy for %s", path, busyTries*busyPause)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return lender{}, fault.New(fault.Permission, lenderAdvice, "this command requires root, and no lender listens at %s", path)
	case errors.Is(err, os.ErrPermission):
		return lender{}, fault.New(fault.Permission, "have an administrator add this user to the group of "+path, "this user may not connect to the lender: %w", err)
	case err != nil:
		return lender{}, fmt.Errorf("connect to lender: %w", err)
	}
	return lender{conn}, nil
}

// send sends a request, with a descriptor unless fd is negative.
func (l lender) send(r Request, fd int) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("send request to lender: %w", err)
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	// EPIPE: the lender has rejected the connection, and its response is readable.
	if _, _, err := l.WriteMsgUnix(text, rights, nil); err != nil && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("send request to lender: %w", err)
	}
	return nil
}

// receive reads a response; a rejection becomes an error.
func (l lender) receive() (r Response, err error) {
	text := make([]byte, MaxMessage)
	n, err := l.Read(text)
	if errors.Is(err, unix.ECONNRESET) { // is reported before a response in the buffer
		n, err = l.Read(text)
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil {
		err = json.Unmarshal(text[:n], &r)
	}
	if err != nil {
		return r, fmt.Errorf("read lender's response: %w", err)
	}
	if rejected := r.Rejection; rejected != nil {
		return r, fault.New(rejected.Status, rejected.Try, "%s", rejected.Error)
	}
	return r, nil
}
