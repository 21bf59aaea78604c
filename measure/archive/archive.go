// SPDX-License-Identifier: Apache-2.0

// Package archive moves the records of a spool into an archive: bundles in the layout of M-Lab's
// autoload, and a Parquet file beside each one.
//
// A bundle is planned before it is uploaded. The plan, a durable file in the spool, fixes the
// records, the object names and each byte of the rows. Objects are created only if their name is
// free, and records are deleted after the archive has all objects. A process that is killed at any
// point therefore repeats the same objects: no record is lost, and none is archived twice.
//
// Files that are no valid record are set aside in the spool with the reason, and never deleted.
package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/atomicfile"
	"weir/internal/fault"
	"weir/internal/wait"
	"weir/measure/spool"
)

// Options are the properties of an archive. Spool, Destination, Organization and Node are needed.
type Options struct {
	Spool        string // folder of package spool
	Destination  Destination
	Organization string // a-z and 0-9, as registered with M-Lab
	Node         string // MACHINE-SITE, as in mlab1-lga01; part of each object's name
	Version      string // of the program, for the rows
	Commit       string
	MaxBytes     int           // rows of a bundle before compression: 20 MiB if 0
	MaxAge       time.Duration // time after which a smaller bundle is complete: 1 h if 0
	NoParquet    bool
	Now          func() time.Time // time.Now if nil
}

// Archive moves the records of one spool. Several processes may work on one spool: they take turns.
type Archive struct {
	o    Options
	last time.Time // of the newest bundle
}

var (
	organizationName = regexp.MustCompile(`^[a-z0-9]{1,63}$`)
	nodeName         = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9-]{0,62}$`)
)

// New checks the options.
func New(o Options) (*Archive, error) {
	switch {
	case !organizationName.MatchString(o.Organization):
		return nil, fault.New(fault.Usage, "write 1 to 63 of the characters a-z and 0-9, as in --organization example", "organization %q is not valid", o.Organization)
	case !nodeName.MatchString(o.Node):
		return nil, fault.New(fault.Usage, "write 1 to 63 letters, digits and hyphens, as in --node mlab1-lga01", "node %q is not valid", o.Node)
	}
	info, err := os.Stat(o.Spool)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "open", Path: o.Spool, Err: unix.ENOTDIR}
	}
	if err != nil {
		return nil, fault.New(fault.Usage, "name the folder of weir measure serve --spool", "open spool: %w", err)
	}
	if err := spool.CheckOwner(o.Spool); err != nil {
		return nil, err
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 20 << 20
	}
	if o.MaxAge == 0 {
		o.MaxAge = time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Archive{o: o}, nil
}

// Report counts the results of a pass.
type Report struct {
	Bundles int
	Records int
	Bytes   int64 // of the data objects, compressed
	Waiting int   // records of bundles that are not complete yet
	Aside   []Aside
}

// Aside is an invalid file that has been moved out of the way.
type Aside struct {
	File   string // its new path
	Reason string
}

// Pass archives all complete bundles, and incomplete ones too if all is set. It continues with
// other bundles after an error of one.
func (a *Archive) Pass(ctx context.Context, all bool) (r Report, err error) {
	unlock, err := a.lock(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	plans, err := a.plans()
	if err != nil {
		return r, err
	}
	var errs []error
	planned := map[string]bool{}
	for _, p := range plans {
		if stale := !p.Uploaded && p.Archive != a.o.Destination.URL(p.dataKey()); stale { // made for another archive
			if err := a.drop(p); err != nil {
				return r, err
			}
			continue
		}
		for _, name := range p.Files {
			planned[filepath.Join(p.Folder.path(), name)] = true
		}
		if err := a.settle(ctx, p, nil, &r); err != nil {
			errs = append(errs, err)
			if unreachable(ctx, err) {
				return r, errors.Join(errs...)
			}
		}
	}
	folders, err := a.folders()
	if err != nil {
		return r, errors.Join(append(errs, err)...)
	}
	for _, f := range folders {
		if err := a.drain(ctx, f, planned, all, &r); err != nil {
			errs = append(errs, err)
			if unreachable(ctx, err) {
				break
			}
		}
	}
	return r, errors.Join(errs...)
}

// unreachable reports errors after which the next bundle would fail too.
func unreachable(ctx context.Context, err error) bool {
	var d *destinationError
	return ctx.Err() != nil || errors.As(err, &d)
}

// stateFolder holds plans and the lock, asideFolder invalid files. Readers of the spool ignore
// names that begin with a dot.
const (
	stateFolder = ".archive"
	asideFolder = ".aside"
)

// lock waits until no other process archives this spool.
func (a *Archive) lock(ctx context.Context) (unlock func() error, err error) {
	folder := filepath.Join(a.o.Spool, stateFolder)
	if err := atomicfile.MakeFolder(folder); err != nil {
		return nil, fmt.Errorf("lock spool: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock spool: %w", err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || wait.For(ctx, 100*time.Millisecond) != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock spool %s: %w", a.o.Spool, err), file.Close())
	}
	return file.Close, nil
}

// Run archives complete bundles until the context ends. It waits between passes, longer after
// errors: 1 s up to 5 min. done gets the result of each pass.
func (a *Archive) Run(ctx context.Context, done func(Report, error)) {
	backoff := time.Second
	for {
		r, err := a.Pass(ctx, false)
		if ctx.Err() != nil {
			return
		}
		done(r, err)
		pause := min(a.o.MaxAge/10, time.Minute)
		if err != nil {
			pause, backoff = backoff, min(2*backoff, 5*time.Minute)
		} else {
			backoff = time.Second
		}
		if wait.For(ctx, pause) != nil {
			return
		}
	}
}
