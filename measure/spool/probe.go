// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/internal/wait"
)

// probeName is the file of a probe. Readers of the spool ignore names that begin with a dot.
const probeName = ".probe"

const (
	probeTime  = 30 * time.Second // of one probe
	probePause = time.Second      // between two probes
)

// probe finds out when a spool that lost a record can store again: the free space shows neither a
// read-only file system, nor a missing permission, nor a disk that does not answer.
type probe struct {
	mu     sync.Mutex // guards failed
	failed error      // nil if the last record or probe was stored
	ctx    context.Context
	stop   context.CancelFunc
	all    sync.WaitGroup
}

// state returns the reason why the spool stores no record now; nil if it does.
func (p *probe) state() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// close ends the probes.
func (p *probe) close() {
	p.mu.Lock()
	p.stop() // no probe begins after this
	p.mu.Unlock()
	p.all.Wait()
}

// broken notes that a record of a folder is lost. Ready and Admit return the reason until a probe
// is stored in the same folder, so that the next tests do not lose their records too.
func (s *Spool) broken(folder string, reason error) {
	if errors.Is(reason, ErrInvalid) || errors.Is(reason, ErrClosed) || errors.Is(reason, context.Canceled) {
		return
	}
	s.probe.mu.Lock()
	defer s.probe.mu.Unlock()
	first := s.probe.failed == nil
	s.probe.failed = fmt.Errorf("the last record could not be stored: %w", reason)
	if first && s.probe.ctx.Err() == nil {
		s.probe.all.Go(func() { s.probeUntilStored(folder) })
	}
}

func (s *Spool) probeUntilStored(folder string) {
	for wait.For(s.probe.ctx, probePause) == nil {
		err := s.tryStore(folder)
		if errors.Is(err, ErrClosed) {
			return
		}
		if err == nil {
			s.probe.mu.Lock()
			s.probe.failed = nil
			s.probe.mu.Unlock()
			return
		}
	}
}

// tryStore stores a file as a record is stored, and removes it.
func (s *Spool) tryStore(folder string) error {
	ctx, cancel := context.WithTimeout(s.probe.ctx, probeTime)
	defer cancel()
	e := &entry{folder: folder, name: probeName, text: []byte("{}"), done: make(chan error, 1)}
	if err := s.commitEntry(ctx, e); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(s.dir, folder, probeName)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
