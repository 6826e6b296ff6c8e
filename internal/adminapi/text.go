package adminapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Text is a string of any bytes: a JSON string where it is UTF-8, else an
// object with its base64. There is one form for each text.
type Text string

// MarshalJSONTo writes t.
func (t Text) MarshalJSONTo(e *jsontext.Encoder) error {
	if utf8.ValidString(string(t)) {
		return e.WriteToken(jsontext.String(string(t)))
	}
	return json.MarshalEncode(e, rawText{Base64: []byte(t)})
}

// UnmarshalJSONFrom reads what MarshalJSONTo wrote.
func (t *Text) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != jsontext.KindBeginObject {
		s, err := readString(d)
		*t = Text(s)
		return err
	}
	var raw rawText
	if err := json.UnmarshalDecode(d, &raw, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	if utf8.Valid(raw.Base64) {
		return errors.New("base64 of what is UTF-8: must be a string")
	}
	*t = Text(raw.Base64)
	return nil
}

type rawText struct {
	Base64 []byte `json:"base64"`
}

func readString(d *jsontext.Decoder) (string, error) {
	if kind := d.PeekKind(); kind != jsontext.KindString && kind != jsontext.KindInvalid {
		return "", fmt.Errorf("must be a string, is %s", kind)
	}
	token, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

// Time is a time in UTC, as RFC 3339 with nanoseconds. One that RFC 3339 cannot
// hold, such as a broken producer's, is "@" and its Unix time in seconds, with
// nine digits after the point. The zero time is left out.
type Time time.Time

// IsZero says that t is left out.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// Time is t as the standard library has it.
func (t Time) Time() time.Time { return time.Time(t).UTC() }

// MarshalJSONTo writes t.
func (t Time) MarshalJSONTo(e *jsontext.Encoder) error {
	u := t.Time()
	if year := u.Year(); year < 0 || year > 9999 {
		return e.WriteToken(jsontext.String(fmt.Sprintf("@%d.%09d", u.Unix(), u.Nanosecond())))
	}
	return e.WriteToken(jsontext.String(u.Format(time.RFC3339Nano)))
}

// UnmarshalJSONFrom reads what MarshalJSONTo wrote, in any zone.
func (t *Time) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	s, err := readString(d)
	if err != nil {
		return err
	}
	*t, err = ParseTime(s)
	return err
}

// ParseTime reads a time as it is written in JSON.
func ParseTime(s string) (Time, error) {
	unix, ok := strings.CutPrefix(s, "@")
	if !ok {
		u, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return Time{}, errors.New("must be a time as in RFC 3339")
		}
		return Time(u.UTC()), nil
	}
	whole, part, _ := strings.Cut(unix, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanos, err2 := strconv.ParseUint(part, 10, 32)
	if err != nil || err2 != nil || len(part) != 9 {
		return Time{}, errors.New("must be a Unix time with nine digits after the point")
	}
	return Time(time.Unix(seconds, int64(nanos)).UTC()), nil
}

// Duration is a duration as Go writes one: "336h0m0s".
type Duration time.Duration

// MarshalJSONTo writes d.
func (d Duration) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.String(time.Duration(d).String()))
}

// UnmarshalJSONFrom reads what MarshalJSONTo wrote.
func (d *Duration) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	s, err := readString(in)
	if err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return errors.New(`must be a duration such as "30s"`)
	}
	*d = Duration(v)
	return nil
}
