package line

var _ Upper
