package driver_test

import (
	"context"
	"testing"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

// says is a Redis whose commands are answered with what it is.
type says struct {
	driver.Redis
	text string // of an error, "" for none
}

func (s *says) Run(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
	if s.text != "" {
		return driver.Value{}, &driver.ReplyError{Text: s.text}
	}
	return driver.Value{}, nil
}

func (s *says) Do(context.Context, ...[]string) ([]driver.Value, error) {
	if s.text != "" {
		return []driver.Value{driver.Error(&driver.ReplyError{Text: s.text})}, nil
	}
	return []driver.Value{{}}, nil
}

// The refusal of a login is a stranger's until the server has answered anything else, be it a refusal.
func TestARefusedLoginIsAStrangersAtFirst(t *testing.T) {
	for _, first := range []string{"", "NOPERM no", "LOADING"} {
		server := &says{}
		rdb := driver.Remembering(server)
		stranger := func(text string) []bool {
			server.text = text
			_, ran := rdb.Run(t.Context(), nil, nil, nil)
			answers, err := rdb.Do(t.Context(), []string{"PING"})
			require.NoError(t, err)
			var marks []bool
			for _, err := range []error{ran, answers[0].Err()} {
				var reply *driver.ReplyError
				require.ErrorAs(t, err, &reply)
				require.Equal(t, text, reply.Text)
				marks = append(marks, reply.Stranger)
			}
			return marks
		}
		require.Equal(t, []bool{true, true}, stranger("WRONGPASS invalid username-password pair"))
		require.Equal(t, []bool{true, true}, stranger("ERR NOAUTH Authentication required."))
		server.text = first
		_, _ = rdb.Do(t.Context(), []string{"PING"})
		require.Equal(t, []bool{false, false}, stranger("WRONGPASS invalid username-password pair"))
	}
}
