// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"weir/internal/atomicfile"
)

// folder is a day of a datatype in the spool.
type folder struct {
	Experiment string `json:"experiment"`
	Datatype   string `json:"datatype"`
	Date       string `json:"date"` // YYYY/MM/DD
}

func (f folder) path() string { return filepath.Join(f.Experiment, f.Datatype, f.Date) }

var (
	wordName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	yearName = regexp.MustCompile(`^[0-9]{4}$`)
	dayName  = regexp.MustCompile(`^[0-9]{2}$`)
	// recordName matches the files that M-Lab's jostler accepts.
	recordName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9:._-]*\.json$`)
)

// folders lists the days of all datatypes in the spool, in the order of their names.
func (a *Archive) folders() ([]folder, error) {
	var found []folder
	levels := []*regexp.Regexp{wordName, wordName, yearName, dayName, dayName}
	var walk func(parts []string) error
	walk = func(parts []string) error {
		if len(parts) == len(levels) {
			found = append(found, folder{parts[0], parts[1], strings.Join(parts[2:], "/")})
			return nil
		}
		entries, err := os.ReadDir(filepath.Join(append([]string{a.o.Spool}, parts...)...))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if e.IsDir() && levels[len(parts)].MatchString(e.Name()) {
				if err := walk(append(parts[:len(parts):len(parts)], e.Name())); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk(nil); err != nil {
		return nil, fmt.Errorf("read spool: %w", err)
	}
	return found, nil
}

// readRecord returns the text of a record in one line, or the reason for which the file is invalid.
func readRecord(path string, maxBytes int) (text []byte, reason string, err error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, "", err
	case !info.Mode().IsRegular():
		return nil, "it is no regular file", nil
	case strings.Contains(filepath.Base(path), "..") || !recordName.MatchString(filepath.Base(path)):
		return nil, "the name is not one of A-Z, a-z, 0-9, ':', '.', '_', '-' with the end .json", nil
	case info.Size() > int64(maxBytes):
		return nil, fmt.Sprintf("it has %d bytes, a bundle %d", info.Size(), maxBytes), nil
	}
	text, err = os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	text, reason = oneLine(text)
	return text, reason, nil
}

// oneLine checks a record and returns it without line ends.
func oneLine(text []byte) ([]byte, string) {
	text = bytes.Trim(text, " \t\r\n") // the white space of JSON
	switch {
	case len(text) == 0:
		return nil, "it is empty"
	case text[0] != '{' || !json.Valid(text):
		return nil, "it is not one JSON object"
	case !utf8.Valid(text):
		return nil, "it is not UTF-8"
	}
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		var line bytes.Buffer
		if err := json.Compact(&line, text); err != nil {
			return nil, err.Error()
		}
		text = line.Bytes()
	}
	return text, ""
}

// setAside moves an invalid file into the folder of such files, and writes the reason beside it.
func (a *Archive) setAside(f folder, name, reason string) (Aside, error) {
	target := filepath.Join(a.o.Spool, asideFolder, f.path())
	if err := atomicfile.MakeFolder(target); err != nil {
		return Aside{}, fmt.Errorf("set %s aside: %w", name, err)
	}
	for version := 1; ; version++ {
		to := filepath.Join(target, name)
		if version > 1 {
			to = fmt.Sprintf("%s.%d", to, version)
		}
		err := atomicfile.Move(filepath.Join(a.o.Spool, f.path(), name), to)
		if errors.Is(err, os.ErrExist) && version < 1000 {
			continue
		}
		if err == nil {
			err = atomicfile.WriteBytes(to+".reason", 0o644, []byte(reason+"\n"))
		}
		if err != nil {
			return Aside{}, fmt.Errorf("set %s aside: %w", name, err)
		}
		return Aside{File: to, Reason: reason}, nil
	}
}

// old reports a file of a bundle that must not wait longer. A file from the future is old: the
// clock has been set back since.
func (a *Archive) old(modified time.Time) bool {
	age := a.o.Now().Sub(modified)
	return age >= a.o.MaxAge || age < -time.Minute
}
