// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/atomicfile"
	"weir/internal/fault"
)

// Destination stores objects. Keys are relative paths with slashes.
type Destination interface {
	// Create stores a whole object unless one of this key exists, which is an error with
	// os.ErrExist in its chain. After another error the object may exist, whole or not at all.
	Create(ctx context.Context, key string, content []byte) error
	// Read returns a whole object.
	Read(ctx context.Context, key string) ([]byte, error)
	// Check returns an error if the destination cannot be reached or rejects the access.
	Check(ctx context.Context) error
	// URL returns the address of an object for people and for the rows.
	URL(key string) string
}

// destinationError is an error of the destination itself, not of one object.
type destinationError struct{ err error }

func (e *destinationError) Error() string { return e.err.Error() }
func (e *destinationError) Unwrap() error { return e.err }

const urlAdvice = "write a folder, or s3://BUCKET/PREFIX?endpoint=https://HOST, or gs://BUCKET/PREFIX"

// Open returns the destination of a URL: a folder as a path or file:// URL,
// s3://BUCKET/PREFIX?endpoint=URL&region=REGION, or gs://BUCKET/PREFIX. Access keys come from the
// environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) or the AWS credentials file.
func Open(address string) (Destination, error) {
	scheme, rest, is := strings.Cut(address, "://")
	if !is {
		if address == "" {
			return nil, fault.New(fault.Usage, urlAdvice, "the archive has no address")
		}
		path, err := filepath.Abs(address)
		return folderDestination(path), err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fault.New(fault.Usage, urlAdvice, "archive %q: %w", address, err)
	}
	switch scheme {
	case "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return nil, fault.New(fault.Usage, "write three slashes, as in file:///srv/archive", "archive %q names no absolute folder", address)
		}
		return folderDestination(filepath.Clean(u.Path)), nil
	case "s3", "gs":
		return newBucket(u)
	}
	return nil, fault.New(fault.Usage, urlAdvice, "archive %q has the unknown scheme %q (%s)", address, scheme, rest)
}

// folderDestination keeps objects as files.
type folderDestination string

func (f folderDestination) path(key string) string {
	return filepath.Join(string(f), filepath.FromSlash(key))
}

func (f folderDestination) Create(_ context.Context, key string, content []byte) error {
	err := atomicfile.Create(f.path(key), 0o644, content)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return &destinationError{fault.Wrap(fmt.Errorf("store in archive: %w", err), statusOf(err), "check the space and the owner of "+string(f))}
	}
	return err
}

func (f folderDestination) Read(_ context.Context, key string) ([]byte, error) {
	content, err := os.ReadFile(f.path(key))
	if err != nil {
		return nil, &destinationError{fmt.Errorf("read archive: %w", err)}
	}
	return content, nil
}

func (f folderDestination) Check(context.Context) error {
	if err := atomicfile.MakeFolder(string(f)); err != nil {
		return &destinationError{fault.New(statusOf(err), "name a folder that this user may write", "open archive: %w", err)}
	}
	return nil
}

func (f folderDestination) URL(key string) string {
	return (&url.URL{Scheme: "file", Path: f.path(key)}).String()
}

// statusOf returns the exit status of a file error.
func statusOf(err error) fault.Status {
	if errors.Is(err, os.ErrPermission) {
		return fault.Permission
	}
	return fault.Failed
}
