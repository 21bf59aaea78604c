// SPDX-License-Identifier: Apache-2.0

// Package fake is a container runtime for tests: it serves the requests of Docker's Engine API that
// Weir sends, from a table of containers.
package fake

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/core/selector/runtimes"
	"weir/kernel/cgroup"
)

// Container is a container of the table.
type Container struct {
	ID     string            `json:"Id"`
	Names  []string          // with a leading slash
	Labels map[string]string `json:",omitempty"`
	State  string            // created, running or exited
	PID    int               `json:"-"`
	Parent string            `json:"-"` // CgroupParent
}

// Runtime is a running fake. Its fields are fixed.
type Runtime struct {
	runtimes.Runtime
	Driver string // of cgroups: systemd or cgroupfs

	mutex      sync.Mutex
	mux        *http.ServeMux
	containers []Container
	listeners  map[chan struct{}]bool // of events
	server     *http.Server
	before     func(*http.Request) // each answer
}

// Before has f called before each answer, without a lock.
func (r *Runtime) Before(f func(*http.Request)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.before = f
}

// ServeHTTP answers a request.
func (r *Runtime) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	before := r.before
	r.mutex.Unlock()
	if before != nil {
		before(request)
	}
	r.mux.ServeHTTP(w, request)
}

// Process starts a process in a cgroup below the root of the hierarchy, until the end of the test,
// and returns its PID and the id of the cgroup.
func Process(t testing.TB, path string) (pid int, id uint64) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("sleep", "600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	group := cgroup.Cgroup{Path: path}
	if err := group.Add(command.Process.Pid); err != nil {
		t.Fatal(err)
	}
	id, err := group.ID()
	if err != nil {
		t.Fatal(err)
	}
	return command.Process.Pid, id
}

// New starts a runtime until the end of the test.
func New(t testing.TB, name, driver string) *Runtime {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-fake") // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{Runtime: runtimes.Runtime{Name: name, Socket: filepath.Join(dir, name+".sock")}, Driver: driver, listeners: map[chan struct{}]bool{}}
	r.Start(t)
	t.Cleanup(func() {
		r.Stop()
		_ = os.RemoveAll(dir)
	})
	return r
}

// Start serves the socket again after Stop.
func (r *Runtime) Start(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("unix", r.Socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	r.mux = mux
	mux.HandleFunc("GET /containers/json", r.list)
	mux.HandleFunc("GET /containers/{id}/json", r.inspect)
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"CgroupDriver": r.Driver, "CgroupVersion": "2"})
	})
	mux.HandleFunc("GET /events", r.events)
	r.server = &http.Server{Handler: r}
	go func() { _ = r.server.Serve(listener) }()
}

// Stop ends the service, with all connections.
func (r *Runtime) Stop() { _ = r.server.Close() }

// Set replaces the table and sends an event.
func (r *Runtime) Set(all ...Container) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.containers = all
	for l := range r.listeners {
		select {
		case l <- struct{}{}:
		default:
		}
	}
}

func (r *Runtime) table() []Container {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.containers
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func (r *Runtime) list(w http.ResponseWriter, request *http.Request) {
	found := []Container{}
	for _, c := range r.table() {
		if request.URL.Query().Get("all") == "true" || c.State == "running" {
			found = append(found, c)
		}
	}
	answer(w, found)
}

func (r *Runtime) inspect(w http.ResponseWriter, request *http.Request) {
	for _, c := range r.table() {
		if c.ID == request.PathValue("id") {
			answer(w, map[string]any{"Id": c.ID, "State": map[string]any{"Pid": c.PID, "Status": c.State}, "HostConfig": map[string]any{"CgroupParent": c.Parent}})
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
	answer(w, map[string]string{"message": "No such container"})
}

func (r *Runtime) events(w http.ResponseWriter, request *http.Request) {
	if !strings.Contains(request.URL.Query().Get("filters"), `"start"`) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	events := make(chan struct{}, 1)
	r.mutex.Lock()
	r.listeners[events] = true
	r.mutex.Unlock()
	defer func() {
		r.mutex.Lock()
		delete(r.listeners, events)
		r.mutex.Unlock()
	}()
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		select {
		case <-request.Context().Done():
			return
		case <-events:
			answer(w, map[string]any{"Type": "container", "Action": "start"})
			_ = flush.Flush()
		}
	}
}
