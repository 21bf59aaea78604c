// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"encoding/xml"
	"io"
	"strconv"
	"time"

	"weir/record"
	"weir/record/summary"
)

// The elements of JUnit's XML that continuous integration systems have in common.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name      string      `xml:"name,attr"`
		Tests     int         `xml:"tests,attr"`
		Failures  int         `xml:"failures,attr"`
		Errors    int         `xml:"errors,attr"`
		Skipped   int         `xml:"skipped,attr"`
		Time      string      `xml:"time,attr"`
		Timestamp string      `xml:"timestamp,attr,omitempty"`
		Cases     []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		Class     string        `xml:"classname,attr"`
		Time      string        `xml:"time,attr"`
		Failure   *junitMessage `xml:"failure"`
		Skipped   *junitMessage `xml:"skipped"`
		SystemOut string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the verdicts as test cases: failed ones as failures, unmeasured ones as
// skipped.
func WriteJUnit(w io.Writer, b *record.Bundle) error {
	m := b.Manifest
	suite := junitSuite{Name: m.Name, Tests: len(b.Verdicts), Time: "0"}
	if !m.Started.IsZero() {
		suite.Timestamp = m.Started.UTC().Format("2006-01-02T15:04:05")
		suite.Time = seconds(m.Finished.Sub(m.Started))
	}
	for _, v := range b.Verdicts {
		test := junitCaseOf(v, m)
		if test.Failure != nil {
			suite.Failures++
		}
		if test.Skipped != nil {
			suite.Skipped++
		}
		suite.Cases = append(suite.Cases, test)
	}
	document := junitSuites{Name: "weir " + m.Kind, Tests: suite.Tests, Failures: suite.Failures, Skipped: suite.Skipped,
		Time: suite.Time, Suites: []junitSuite{suite}}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitCaseOf(v record.Verdict, m record.Manifest) junitCase {
	test := junitCase{Name: v.Name, Class: "weir." + m.Kind + "." + m.Name, Time: "0"}
	if labels := summary.Text(v.Labels); labels != "" {
		test.Name += " [" + labels + "]"
	}
	text := "expected: " + v.Expected + "\nmeasured: " + v.Measured
	if v.Reason != "" {
		text += "\nreason: " + v.Reason
	}
	switch v.Outcome {
	case record.Holds:
		test.SystemOut = text
	case record.NotMeasured:
		test.Skipped = &junitMessage{Message: v.Reason}
	default:
		message := "expected " + v.Expected + ", measured " + v.Measured
		test.Failure = &junitMessage{Message: message, Type: "expectation", Text: text}
	}
	return test
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(max(d.Seconds(), 0), 'f', 3, 64)
}
