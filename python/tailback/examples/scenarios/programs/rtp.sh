#!/bin/sh
# Receives H.263 over RTP: rtp.sh ADDRESS PORT DIR
printf 'v=0\no=- 0 0 IN IP4 %s\ns=x\nc=IN IP4 %s\nt=0 0\nm=video %s RTP/AVP 96\na=rtpmap:96 H263-1998/90000\n' "$1" "$1" "$2" > "$3/rtp.sdp"
exec ffmpeg -hide_banner -nostdin -threads 1 -protocol_whitelist file,udp,rtp -i "$3/rtp.sdp" -f null -
