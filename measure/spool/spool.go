// SPDX-License-Identifier: Apache-2.0

// Package spool keeps the records of measurements as files in the folders and under the names of
// Measurement Lab, until an archive has them.
//
// A record is a file EXPERIMENT/DATATYPE/YYYY/MM/DD/NAME.json with one JSON object in one line.
// [Spool.Store] returns after the file, its name and its folders are on the disk; concurrent calls
// share the synchronisation. A process that is killed leaves whole files and temporary ones, never
// a partial file under a final name. A record with the same content twice is one file.
//
// The disk may fill up at any time. [Spool.Admit] therefore preallocates space before a test
// starts, which its records use if the disk is full at the end. [ErrFull] ends by itself when there
// is space again.
package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/internal/atomicfile"
	"weir/internal/fault"
)

var (
	// ErrFull reports too little space on the disk of the spool. A server refuses new tests.
	ErrFull = errors.New("the disk of the spool is full")
	// ErrInvalid reports a record that no datatype of the archive can hold.
	ErrInvalid = errors.New("record is not valid")
	// ErrClosed reports a call after Close.
	ErrClosed = errors.New("the spool is closed")
)

// Options are the properties of a spool. The zero value is useful.
type Options struct {
	Privacy Privacy
	// PerTest is the space in bytes without which Ready reports ErrFull: 1.25 MiB if zero.
	PerTest int64
	// MinFree is the free space in bytes below which no test is admitted: 64 MiB if zero, none if
	// negative.
	MinFree int64
}

// Spool stores records in a folder. Its methods are safe for concurrent use, and several processes
// may use one folder.
type Spool struct {
	dir     string
	options Options
	scratch *scratch
	ballast *ballast
	probe   probe

	queue chan *entry
	ended chan struct{}
	known map[string]bool // folders with durable parents; of commitAll alone

	mu     sync.RWMutex // guards closed, and queue against its closing
	closed bool
}

// entry is a record on its way to the disk.
type entry struct {
	folder string // below the spool
	name   string
	text   []byte
	done   chan error // receives once
}

// Open creates the folder if it is missing, removes the temporary files of killed processes, and
// reserves space. A full disk is no error here; Ready reports it. Root cannot open the spool of
// another user ([CheckOwner]).
func Open(dir string, o Options) (*Spool, error) {
	if err := o.Privacy.check(); err != nil {
		return nil, err
	}
	if o.PerTest == 0 {
		o.PerTest = 1280 << 10
	}
	if o.MinFree == 0 {
		o.MinFree = 64 << 20
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	if err := CheckOwner(dir); err != nil {
		return nil, err
	}
	if err := atomicfile.MakeFolder(dir); err != nil {
		return nil, fault.Wrap(fmt.Errorf("open spool: %w", err), statusOf(err), "name a folder that this user may write, as in --spool /var/spool/weir")
	}
	scratch, err := newScratch(filepath.Join(dir, scratchFolder))
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("open spool: %w", err), statusOf(err), "name a folder that this user may write, as in --spool /var/spool/weir")
	}
	s := &Spool{dir: dir, options: o, scratch: scratch, queue: make(chan *entry, maxBatch), ended: make(chan struct{}), known: map[string]bool{}}
	s.ballast = &ballast{path: filepath.Join(scratch.dir, "ballast"), perTest: o.PerTest, minFree: o.MinFree}
	if err := s.ballast.fill(); err != nil && !errors.Is(err, ErrFull) {
		return nil, errors.Join(err, scratch.remove())
	}
	s.probe.ctx, s.probe.stop = context.WithCancel(context.Background())
	go s.commitAll()
	return s, nil
}

// statusOf returns the exit status of a file error.
func statusOf(err error) fault.Status {
	if errors.Is(err, os.ErrPermission) {
		return fault.Permission
	}
	return fault.Failed
}

// Dir returns the absolute path of the spool.
func (s *Spool) Dir() string { return s.dir }

// Ready returns nil if a test may start. The error is the reason why the last record is lost, or
// has ErrFull in its chain.
func (s *Spool) Ready() error {
	if err := s.probe.state(); err != nil {
		return err
	}
	return s.ballast.ready()
}

// Admit reserves space for the records of one test, or returns the error of Ready. Call release
// once, after the test's last Store.
func (s *Spool) Admit(bytes int64) (release func(), err error) {
	if err := s.probe.state(); err != nil {
		return nil, err
	}
	return s.ballast.admit(bytes)
}

// Store writes a record and returns nil after it is durable. started is the time of a record
// without an EndTime or Timestamp of its own. The datatype may name an experiment other than its
// usual one, as in "msak/scamper2". record is a value for json.Marshal.
//
// The error has ErrFull, ErrInvalid, ErrClosed or ctx's error in its chain, or is a file error.
// After any of them the record may still be stored; a repeated call with the same record is safe.
func (s *Spool) Store(ctx context.Context, datatype, uuid string, started time.Time, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("store %s of %s: %w: %w", datatype, uuid, ErrInvalid, err)
	}
	name, err := nameOf(datatype, uuid, started, text)
	if err != nil {
		return fmt.Errorf("store %s of %s: %w", datatype, uuid, err)
	}
	e := &entry{folder: name.folder(), name: name.file, text: s.options.Privacy.apply(text), done: make(chan error, 1)}
	if err := s.commitEntry(ctx, e); err != nil {
		s.broken(e.folder, err)
		return fmt.Errorf("store %s of %s: %w", datatype, uuid, err)
	}
	return nil
}

// commitEntry returns nil after the entry is durable.
func (s *Spool) commitEntry(ctx context.Context, e *entry) error {
	if err := s.send(ctx, e); err != nil {
		return err
	}
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send queues an entry for the next commit.
func (s *Spool) send(ctx context.Context, e *entry) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	select {
	case s.queue <- e:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close waits for all calls of Store and gives the reserved space back.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.queue)
	s.mu.Unlock()
	s.probe.close()
	<-s.ended
	return s.scratch.remove()
}
