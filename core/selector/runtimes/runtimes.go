// SPDX-License-Identifier: Apache-2.0

// Package runtimes reads the containers of Docker and Podman from their API sockets.
//
// Both serve Docker's Engine API (1.24 and later); Podman calls it the compatible API. Requests use
// plain HTTP without a version in the path. Only sockets of root are read: another user's runtime
// could name processes of others.
package runtimes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// Runtime is the API socket of one container runtime.
type Runtime struct {
	Name   string // docker or podman
	Socket string
}

// All returns the runtimes that Weir supports, installed or not.
func All() []Runtime {
	return []Runtime{{"docker", "/run/docker.sock"}, {"podman", "/run/podman/podman.sock"}}
}

// ErrAbsent is returned if no process serves the socket.
var ErrAbsent = errors.New("no runtime answers")

// Container is a container of a runtime.
type Container struct {
	Runtime Runtime
	ID      string
	Names   []string
	Labels  map[string]string
	Running bool
}

// Bounds of an answer and of an event, in bytes.
const (
	maxAnswer = 32 << 20
	maxEvent  = 1 << 20
)

func (r Runtime) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", r.Socket)
		}}}
}

// open sends a request and returns the body of the answer.
func (r Runtime) open(ctx context.Context, request string) (io.ReadCloser, error) {
	info, err := os.Stat(r.Socket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", r.Socket, ErrAbsent)
	}
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", r.Name, err)
	}
	if owner, is := info.Sys().(*syscall.Stat_t); is && owner.Uid != 0 {
		return nil, fmt.Errorf("query %s: %s is not root's: %w", r.Name, r.Socket, ErrAbsent)
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Name+request, nil)
	if err != nil {
		return nil, err
	}
	answer, err := r.client().Do(call)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", r.Socket, ErrAbsent)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s has not answered at %s in time", r.Name, r.Socket)
	}
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", r.Name, err)
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		_ = answer.Body.Close()
		return nil, &statusError{r.Name, request, answer.StatusCode, strings.TrimSpace(string(text))}
	}
	return answer.Body, nil
}

// statusError is an answer with another status than 200.
type statusError struct {
	runtime, request string
	status           int
	text             string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("query %s: %s: status %d: %s", e.runtime, e.request, e.status, e.text)
}

// get decodes an answer that ends before a deadline.
func (r Runtime) get(request string, deadline time.Time, into any) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	body, err := r.open(ctx, request)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("query %s: %s: %w", r.Name, request, err)
	}
	return nil
}

// Containers lists all containers, also those that do not run.
func (r Runtime) Containers(deadline time.Time) ([]Container, error) {
	var all []struct {
		ID     string `json:"Id"`
		Names  []string
		Labels map[string]string
		State  string
	}
	if err := r.get("/containers/json?all=true", deadline, &all); err != nil {
		return nil, err
	}
	found := make([]Container, 0, len(all))
	for _, c := range all {
		if !isID(c.ID) {
			return nil, fmt.Errorf("query %s: %q is not the ID of a container", r.Name, c.ID)
		}
		for i, name := range c.Names {
			c.Names[i] = strings.TrimPrefix(name, "/")
		}
		found = append(found, Container{Runtime: r, ID: c.ID, Names: c.Names, Labels: c.Labels, Running: c.State == "running" || c.State == "paused"})
	}
	return found, nil
}

// idLength is the length of the ID of a container, in hexadecimal digits.
const idLength = 64

func isID(text string) bool {
	return len(text) == idLength && strings.Trim(text, "0123456789abcdef") == ""
}

// Place is where the processes of a container are.
type Place struct {
	PID int // of the first process; 0 if the container does not run
	// Future is the path of the cgroup at the next start, below the root of the hierarchy; "" if
	// the container runs.
	Future string
}

// ErrGone is returned for a container that was removed.
var ErrGone = errors.New("the container was removed")

// Place returns the place of a container.
func (c Container) Place(deadline time.Time) (p Place, err error) {
	var details struct {
		State      struct{ Pid int }
		HostConfig struct{ CgroupParent string }
	}
	err = c.Runtime.get("/containers/"+c.ID+"/json", deadline, &details)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		return p, ErrGone
	}
	if err != nil || details.State.Pid != 0 {
		return Place{PID: details.State.Pid}, err
	}
	var info struct{ CgroupDriver string }
	err = c.Runtime.get("/info", deadline, &info)
	return Place{Future: c.future(info.CgroupDriver, details.HostConfig.CgroupParent)}, err
}

// future returns the cgroup that the runtime will create.
func (c Container) future(driver, parent string) string {
	prefix, slice, folder := "docker-", "system.slice", "/docker"
	if c.Runtime.Name == "podman" {
		prefix, slice, folder = "libpod-", "machine.slice", "/libpod_parent"
	}
	if driver == "systemd" {
		if strings.HasSuffix(parent, ".slice") {
			slice = path.Base(parent)
		}
		return path.Join(slicePath(slice), prefix+c.ID+".scope")
	}
	if parent != "" {
		folder = parent
	}
	if c.Runtime.Name == "podman" {
		return path.Join("/", folder, prefix+c.ID)
	}
	return path.Join("/", folder, c.ID)
}

// slicePath returns the folder of a slice: a-b.slice is below a.slice (systemd.slice(5)).
func slicePath(slice string) string {
	folder, name := "/", strings.TrimSuffix(slice, ".slice")
	for i := range len(name) {
		if name[i] == '-' && i > 0 {
			folder = path.Join(folder, name[:i]+".slice")
		}
	}
	return path.Join(folder, slice)
}

// Follow calls changed after each event that may create, start, rename or end a container, until
// ctx or the runtime ends.
func (r Runtime) Follow(ctx context.Context, changed func()) error {
	filters := `{"type":["container"],"event":["create","start","die","destroy","remove","rename"]}`
	body, err := r.open(ctx, "/events?filters="+url.QueryEscape(filters))
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	changed() // events before the subscription
	bounded := &io.LimitedReader{R: body}
	for events := json.NewDecoder(bounded); ; {
		bounded.N = maxEvent
		var event struct{}
		if err := events.Decode(&event); err != nil {
			return fmt.Errorf("follow %s: %w", r.Name, err)
		}
		changed()
	}
}
