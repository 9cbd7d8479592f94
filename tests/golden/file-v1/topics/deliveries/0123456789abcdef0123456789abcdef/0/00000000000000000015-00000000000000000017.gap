{
  "file": "00000000000000000013.log",
  "position": 240,
  "reason": "the body's checksum does not match",
  "set_aside": "damaged/deliveries/0123456789abcdef0123456789abcdef/0/00000000000000000013.log"
}