#!/bin/sh
# nginx in the foreground, serving /file of BYTES zeros: nginx.sh ADDRESS PORT FOLDER BYTES
set -eu
address=$1 port=$2 folder=$3 bytes=$4

mkdir -p "$folder/www"
head -c "$bytes" /dev/zero >"$folder/www/file"
cat >"$folder/nginx.conf" <<END
daemon off;
user root;
worker_processes 1;
pid $folder/nginx.pid;
events {}
http {
    access_log off;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    server {
        listen $address:$port;
        root $folder/www;
    }
}
END
exec nginx -p "$folder" -c "$folder/nginx.conf" -e stderr
