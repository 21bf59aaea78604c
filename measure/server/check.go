// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/congestion"
	"weir/measure/msak"
)

// State is the result of a check.
type State string

const (
	Works   State = "works"
	Limited State = "limited" // the site serves without it
	Missing State = "missing" // the site does not serve
)

// Check is one property of the host.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Try    string `json:"try,omitempty"`
}

// CheckOptions describe the site to check. Certificate is nil if none is given or CertificateError
// is set.
type CheckOptions struct {
	Clear, Secure, Latency, Metrics string
	Certificate                     *Certificate
	CertificateError                error
	Congestion                      string
	Spool                           string
	MaxTests                        int
	// Archive reports why the archive of this name cannot be used; nil without one.
	Archive     func(context.Context) error
	ArchiveName string
}

// archiveTime bounds the check of an archive.
const archiveTime = 10 * time.Second

// Checks returns the state of each property that a site needs. It opens and closes the listeners
// and writes one file to the spool.
func Checks(ctx context.Context, o CheckOptions) []Check {
	checks := []Check{CheckCongestion(o.Congestion)}
	for _, other := range otherControls(o.Congestion) {
		checks = append(checks, CheckCongestion(other))
	}
	checks = append(checks, checkCertificate(ctx, o), checkFiles(o.MaxTests), checkClock())
	for _, l := range []struct{ flag, address string }{{"--listen", o.Clear}, {"--tls-listen", o.Secure}, {"--metrics", o.Metrics}} {
		if l.address != "" && (l.flag != "--tls-listen" || o.Certificate != nil) {
			checks = append(checks, checkPort(l.flag, l.address))
		}
	}
	if o.Latency != "" {
		checks = append(checks, checkUDP(o.Latency))
	}
	checks = append(checks, checkSpool(o.Spool))
	if o.Archive != nil {
		c := Check{Name: "archive " + o.ArchiveName, State: Works, Detail: "can be written"}
		ctx, cancel := context.WithTimeout(ctx, archiveTime)
		defer cancel()
		if err := o.Archive(ctx); err != nil {
			// Records wait in the spool.
			c.State, c.Detail, c.Try = Limited, err.Error(), fault.Advice(err)
		}
		checks = append(checks, c)
	}
	return checks
}

// otherControls are the congestion controls of this kernel and those that clients of msak may
// request, without the site's own.
func otherControls(own string) []string {
	all := slices.Concat(msak.CongestionControls, congestion.Available())
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == own })
}

// checkFiles compares the limit of open files with the connections of a site.
func checkFiles(maxTests int) Check {
	c := Check{Name: "open files", State: Works}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		c.State, c.Detail = Limited, "the limit is not known: "+err.Error()
		return c
	}
	need := uint64(blockConnections(maxTests)) + spareFiles
	c.Detail = fmt.Sprintf("the limit is %d; one client block may use %d", limit.Max, need)
	if limit.Max < need {
		c.State, c.Try = Limited, fmt.Sprintf("set LimitNOFILE=%d in the unit, or a lower --max-tests", need)
	}
	return c
}

// spareFiles are the files of listeners, the spool and other requests.
const spareFiles = 256

// checkClock reports whether the host's clock is synchronized: records have its time.
func checkClock() Check {
	c := Check{Name: "clock", State: Works, Detail: "the kernel reports it as synchronized"}
	var state unix.Timex
	if result, err := unix.Adjtimex(&state); err != nil || result == unix.TIME_ERROR || state.Status&unix.STA_UNSYNC != 0 {
		c.State, c.Detail, c.Try = Limited, "no time service keeps it synchronized: times of records may be wrong", "run a time service, such as chrony or systemd-timesyncd"
	}
	return c
}

// CheckCongestion reports whether this process can set the congestion control.
func CheckCongestion(name string) Check {
	c := Check{Name: "congestion control " + name, State: Works, Detail: "can be set for each connection"}
	if err := congestion.Check(name); err != nil {
		c.State, c.Detail, c.Try = Limited, err.Error()+"; connections keep the host's default", fault.Advice(err)
	}
	return c
}

func checkCertificate(ctx context.Context, o CheckOptions) Check {
	c := Check{Name: "certificate", State: Works}
	switch {
	case o.CertificateError != nil:
		c.State, c.Detail, c.Try = Missing, o.CertificateError.Error(), fault.Advice(o.CertificateError)
		return c
	case o.Certificate == nil:
		c.State, c.Detail, c.Try = Limited, "none is given: clear tests only", "add --cert and --key"
		return c
	}
	expires, err := o.Certificate.Expires()
	if err == nil && expires.IsZero() {
		if err := o.Certificate.checkAuthority(ctx); err != nil {
			c.State, c.Detail, c.Try = Missing, err.Error(), "check --acme-directory, --acme-ca and the network"
			return c
		}
		c.Detail = "the authority answers; the site will request a certificate for " + o.Certificate.host
		return c
	}
	left := time.Until(expires)
	switch {
	case err != nil:
		c.State, c.Detail = Missing, err.Error()
	case left <= 0:
		c.State, c.Detail, c.Try = Missing, "it expired at "+expires.UTC().Format(time.RFC3339), "renew it"
	case left < 14*24*time.Hour:
		c.State, c.Detail, c.Try = Limited, "it expires at "+expires.UTC().Format(time.RFC3339), "renew it; the site loads the new file by itself"
	default:
		c.Detail = "valid until " + expires.UTC().Format(time.RFC3339)
	}
	return c
}

func checkPort(flag, address string) Check {
	c := Check{Name: flag + " " + address, State: Works, Detail: "the port is free"}
	l, err := listen(flag, address)
	if err != nil {
		c.State, c.Detail, c.Try = Missing, strings.TrimPrefix(err.Error(), c.Name+": "), fault.Advice(err)
		return c
	}
	_ = l.Close()
	return c
}

func checkUDP(address string) Check {
	const flag = "--latency-listen"
	c := Check{Name: flag + " " + address, State: Works, Detail: "the UDP port is free"}
	conn, err := listenUDP(flag, address)
	if err != nil {
		c.State, c.Detail, c.Try = Missing, strings.TrimPrefix(err.Error(), c.Name+": "), fault.Advice(err)
		return c
	}
	_ = conn.Close()
	return c
}

// minFree is the free disk space in bytes below which the check warns: some 20,000 tests.
const minFree = 1 << 30

func checkSpool(dir string) Check {
	c := Check{Name: "spool " + dir, State: Works}
	existing := dir
	for !exists(existing) && existing != filepath.Dir(existing) {
		existing = filepath.Dir(existing) // the site makes the missing folders
	}
	file, err := os.CreateTemp(existing, ".weir-check-*")
	if err != nil {
		c.State, c.Detail, c.Try = Missing, err.Error(), "name a folder that this user may write with --spool"
		return c
	}
	_, err = file.WriteString("check\n")
	if err := errors.Join(err, file.Sync(), file.Close(), os.Remove(file.Name())); err != nil {
		c.State, c.Detail, c.Try = Missing, err.Error(), "free space on the disk, or name another folder with --spool"
		return c
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(existing, &disk); err != nil {
		c.Detail = "can be written; its free space is not known: " + err.Error()
		return c
	}
	free := disk.Bavail * uint64(disk.Bsize)
	c.Detail = fmt.Sprintf("can be written; %s free", units.ByteSize(free))
	if free < minFree {
		c.State, c.Try = Limited, "free space on the disk: a test leaves some 100 KiB"
	}
	return c
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
